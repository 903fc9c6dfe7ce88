//go:build system

package monitortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// scraper is a real Prometheus that runs in the cluster.
type scraper struct {
	client *http.Client
}

// quick is the rules with minutes and hours made seconds; what they ask is as it was, but for the time they look back. A machine that stands
// still for two scrapes makes nobody look down.
func quick(t *testing.T) string {
	text := string(read(t, rulesFile))
	for _, change := range []struct{ pattern, to string }{
		{`for: \d+[mhd]\b`, "for: 6s"},
		{`\[(5|10|30)m\]`, "[20s]"},
		{`> 6 \* 3600`, "> 1"},
	} {
		re := regexp.MustCompile(change.pattern)
		if !re.MatchString(text) {
			t.Fatalf("no %s in the rules", change.pattern)
		}
		text = re.ReplaceAllString(text, change.to)
	}
	return text
}

// startPrometheus runs it on monitoring01, with all bulk nodes as targets of the job that deploy/prometheus has, but for the time.
func startPrometheus(w *watched) *scraper {
	w.t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		w.t.Fatal(err)
	}
	var targets []string
	for _, s := range servers() {
		if s.role == bulkRole {
			targets = append(targets, strconv.Quote(s.address+":9825"))
		}
	}
	w.write(fmt.Sprintf(`[{"targets": [%s], "labels": {"cluster": "lab"}}]`, strings.Join(targets, ", ")), w.path("prometheus", "targets", "lab.json"))
	config := regexp.MustCompile(`_interval: 15s`).ReplaceAllString(string(read(w.t, configFile)), "_interval: 2s")
	w.write(config, w.path("prometheus", "prometheus.yml"))
	w.write(quick(w.t), w.path("prometheus", "bulkshaper.rules.yml"))
	w.must(promtool("check", "config", w.path("prometheus", "prometheus.yml")))
	log, err := os.Create(w.path("prometheus", "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	host := w.Host("monitoring01")
	process, err := host.Start(path, []string{"--config.file=" + w.path("prometheus", "prometheus.yml"), "--storage.tsdb.path=" + w.path("prometheus", "data"),
		"--web.listen-address=" + host.Address.String() + ":9090", "--log.level=warn"}, os.Environ(), log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := process.Signal(syscall.SIGTERM); err != nil {
			w.t.Error(err)
		}
		<-process.Done()
		if text, err := os.ReadFile(w.path("prometheus", "log")); w.t.Failed() {
			w.t.Logf("prometheus ended with %s; its log, %v:\n%s", process.Ended(), err, text)
		}
	})
	p := &scraper{client: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return host.Dial(ctx, netip.AddrPortFrom(host.Address, 9090))
	}}}}
	w.t.Cleanup(p.client.CloseIdleConnections)
	eventually(w.t, "prometheus", func() error {
		select {
		case <-process.Done():
			w.t.Fatalf("prometheus has ended: %s", process.Ended())
		default:
		}
		_, err := p.ask("vector(1)")
		return err
	})
	return p
}

// sample is one series of an answer.
type sample struct {
	Labels map[string]string `json:"metric"`
	At     [2]any            `json:"value"`
}

func (s sample) value(t *testing.T) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(fmt.Sprint(s.At[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// get asks the API.
func (p *scraper) get(path string, values url.Values, data any) error {
	response, err := p.client.Get("http://prometheus/api/v1/" + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Warnings      []string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" || len(answer.Warnings) > 0 {
		return errors.New(answer.Error + strings.Join(answer.Warnings, "; "))
	}
	return json.Unmarshal(answer.Data, data)
}

// ask evaluates a query now.
func (p *scraper) ask(query string) ([]sample, error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := p.get("query", url.Values{"query": {query}}, &data); err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("%s: the result is a %s", query, data.ResultType)
	}
	var samples []sample
	return samples, json.Unmarshal(data.Result, &samples)
}

// one gives the value of a query that has one.
func (p *scraper) one(t *testing.T, query string) (float64, error) {
	t.Helper()
	samples, err := p.ask(query)
	if err != nil {
		return 0, err
	}
	if len(samples) != 1 {
		return 0, fmt.Errorf("%s: %d results", query, len(samples))
	}
	return samples[0].value(t), nil
}

// alert is one that is pending or fires.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

func (p *scraper) alerts() ([]alert, error) {
	var data struct{ Alerts []alert }
	err := p.get("alerts", nil, &data)
	return data.Alerts, err
}
