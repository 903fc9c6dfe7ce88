//go:build system

package systemtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"bulkshaper/metrics"
	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// node is a metrics.Source made of values.
type node struct{}

func (node) Snapshot() shaper.Snapshot {
	now := time.Now()
	class := tc.Class{ID: tc.MakeHandle(tc.Major, 0x20), Parent: tc.Root, Rate: 204_800_000, Ceil: 204_800_000}
	return shaper.Snapshot{
		Interface: "eth1", Node: "hadoop27", InSync: true, InterfaceUp: true, LastSuccess: now,
		LastReload: shaper.Reload{Time: now, Result: shaper.ReloadSuccess},
		Classes:    []shaper.ClassInfo{{Name: "cross-cabinet", Class: class, Leaf: true, Destinations: 24}},
	}
}

// sent is a count that 32 bits do not hold.
const sent = 1<<32 + 5

func (n node) Stats(context.Context) (tc.Stats, error) {
	return tc.Stats{
		Root:    tc.Qdisc{Handle: tc.MakeHandle(tc.Major, 0), Kind: tc.KindHTB, Parent: tc.Root},
		Classes: []tc.ClassStats{{Class: n.Snapshot().Classes[0].Class, Leaf: true, SentPackets: sent, SentBytes: sent * 1500}},
	}, nil
}

// TestPrometheus: a real one scrapes the daemon's handler over TLS with a password, and promtool finds nothing wrong but the
// two names that the contract fixes.
func TestPrometheus(t *testing.T) {
	need(t, map[string]string{"prometheus": "prometheus", "promtool": "prometheus"})
	folder := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificate(t, folder)
	webConfig := file("web.yml", "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"+
		"basic_auth_users: {prometheus: $2a$04$F5CfTBTj2x83p7PMbop.Z.Wue8hXeWInytBBBa.NHTKUHruk2fkWm}\n") // swordfish
	run(t, "promtool", "check", "web-config", webConfig)

	registry := prometheus.NewRegistry()
	recorder := metrics.NewRecorder(registry)
	registry.MustRegister(metrics.NewCollector(node{}), collectors.NewGoCollector(), metrics.NewProcessCollector(time.Now()))
	recorder.Reload(shaper.ReloadSuccess, time.Now())
	handler := metrics.NewHandler(metrics.HandlerOptions{Gatherer: registry, Source: node{}, Log: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- metrics.Serve(ctx, metrics.ServeOptions{Listen: "127.0.0.1:0", WebConfig: webConfig, Handler: handler, Log: zap.NewNop(),
			Listening: func(a net.Addr) { listening <- a.String() }})
	}()
	var address string
	select {
	case address = <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	own := startPrometheus(t, folder, file("prometheus.yml", `global: {scrape_interval: 1s}
scrape_configs:
  - job_name: bulkshaper
    scheme: https
    tls_config: {ca_file: server.crt}
    basic_auth: {username: prometheus, password: swordfish}
    static_configs: [{targets: ["`+address+`"]}]
`))
	for query, want := range map[string]string{
		"up": "1", "bulkshaper_in_sync": "1", `bulkshaper_inventory_reloads_total{result="success"}`: "1",
		`sum by (class) (bulkshaper_class_sent_packets_total{kind="leaf"})`: fmt.Sprint(sent),
		"bulkshaper_class_rate_bits_per_second":                             "204800000",
		"count(process_start_time_seconds)":                                 "1",
	} {
		eventually(t, query, func() error {
			got, err := ask(own, query)
			if err == nil && got != want {
				err = fmt.Errorf("it is %q, want %q", got, want)
			}
			return err
		})
	}

	answer := new(bytes.Buffer)
	if err := text(handler, answer); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("promtool", "check", "metrics")
	c.Stdin = answer
	out, err := c.CombinedOutput()
	found := slices.Sorted(strings.Lines(strings.TrimSpace(string(out)) + "\n"))
	if diff := cmp.Diff([]string{
		"bulkshaper_class_ceil_bits_per_second use base unit \"bytes\" instead of \"bits\"\n",
		"bulkshaper_class_rate_bits_per_second use base unit \"bytes\" instead of \"bits\"\n",
	}, found); diff != "" {
		t.Errorf("promtool check metrics: %v (-want +got):\n%s", err, diff)
	}
}

// text is what the handler serves, to be checked.
func text(handler http.Handler, w io.Writer) error {
	r, err := http.NewRequest("GET", "/metrics", nil)
	if err != nil {
		return err
	}
	answer := &response{header: http.Header{}, Writer: w}
	handler.ServeHTTP(answer, r)
	if answer.code != http.StatusOK {
		return fmt.Errorf("/metrics answers %d", answer.code)
	}
	return nil
}

type response struct {
	io.Writer
	header http.Header
	code   int
}

func (r *response) Header() http.Header  { return r.header }
func (r *response) WriteHeader(code int) { r.code = code }

// startPrometheus runs one until the test ends and gives its address.
func startPrometheus(t *testing.T, folder, config string) string {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, "promtool", "check", "config", config)
	var log bytes.Buffer
	c := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	c.Stdout, c.Stderr = &log, &log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop prometheus: %v", err)
		}
		if err := c.Wait(); err != nil || t.Failed() {
			t.Logf("prometheus: %v\n%s", err, log.String())
		}
	})
	return address
}

// ask gives the one value of a query.
func ask(address, query string) (string, error) {
	response, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Data.Result) != 1 {
		return "", fmt.Errorf("%d results %s", len(answer.Data.Result), answer.Error)
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// certificate makes server.crt and server.key, for 127.0.0.1.
func certificate(t *testing.T, folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"server.crt": {Type: "CERTIFICATE", Bytes: der}, "server.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
