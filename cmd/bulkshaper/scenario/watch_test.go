package scenario

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"
)

func (n *node) cmdLog(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	if args[0] == "all" {
		most, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		if lines := n.log.lines(); len(lines) > most {
			return fmt.Errorf("the log has %d lines, more than %d", len(lines), most)
		}
		return nil
	}
	digits, more := strings.CutSuffix(args[0], "+")
	count, err := strconv.Atoi(digits)
	if err != nil {
		return err
	}
	re, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	n.expected[args[1]] = expected{count, more}
	var lines []string
	err = n.await(fmt.Sprintf("%d lines of %q in the log", count, args[1]), func() (bool, string) {
		lines = n.log.matching(re)
		return len(lines) >= count, fmt.Sprintf("%d do", len(lines))
	})
	if err == nil && !more && len(lines) > count {
		err = fmt.Errorf("%d lines match, not %d:\n%s", len(lines), count, strings.Join(lines, "\n"))
	}
	return err
}

// get asks the daemon at its socket, or, where it has none, at its port.
func (n *node) get(path string) (code int, body string, err error) {
	return n.ask(context.Background(), path)
}

func (n *node) ask(ctx context.Context, path string) (code int, body string, err error) {
	return n.askBy(ctx, func() (net.Conn, error) {
		if conn, err := net.Dial("unix", filepath.Join(n.runDir(), "bulkshaper.sock")); err == nil {
			return conn, nil
		}
		return n.dialTCP()
	}, path)
}

func (n *node) askBy(ctx context.Context, dial func() (net.Conn, error), path string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://bulkshaper"+path, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func (n *node) cmdAnswers(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 && len(args) != 3 {
		return errUsage
	}
	re := regexp.MustCompile("")
	if len(args) == 3 {
		var err error
		if re, err = regexp.Compile(args[2]); err != nil {
			return err
		}
	}
	return n.await(args[0]+" to answer "+args[1], func() (bool, string) {
		code, body, err := n.get(args[0])
		return err == nil && strconv.Itoa(code) == args[1] && re.MatchString(body), fmt.Sprint(code, " ", body, err)
	})
}

func (n *node) cmdStatus(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	return n.awaitStatus(args[0], args[1])
}

func (n *node) awaitStatus(field, value string) error {
	re, err := regexp.Compile("^(?:" + value + ")$")
	if err != nil {
		return err
	}
	return n.await("status "+field+" "+value, func() (bool, string) {
		_, body, err := n.get("/api/v1/status")
		got := gjson.Get(body, field)
		return err == nil && re.MatchString(got.String()), fmt.Sprint(got.String(), " ", err)
	})
}

func (n *node) cmdMetric(_ *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errUsage
	}
	want, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	compare := map[string]func(float64) bool{
		"==": func(v float64) bool { return v == want }, "!=": func(v float64) bool { return v != want },
		">=": func(v float64) bool { return v >= want }, "<=": func(v float64) bool { return v <= want },
	}[args[1]]
	if compare == nil {
		return errUsage
	}
	name, labels, err := parseSeries(args[0])
	if err != nil {
		return err
	}
	return n.await(strings.Join(args, " "), func() (bool, string) {
		_, body, err := n.get("/metrics")
		if err != nil {
			return false, err.Error()
		}
		found, sum := false, 0.0
		for line := range strings.Lines(body) {
			series, value, ok := cutLast(strings.TrimSpace(line), " ")
			if !ok || strings.HasPrefix(line, "#") {
				continue
			}
			if hasName, has, err := parseSeries(series); err != nil || hasName != name || !contains(has, labels) {
				continue
			}
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return false, err.Error()
			}
			found, sum = true, sum+v
		}
		if !found {
			return false, "no such series"
		}
		return compare(sum), strconv.FormatFloat(sum, 'g', -1, 64)
	})
}

var label = regexp.MustCompile(`([a-zA-Z_]+)="([^"]*)"`)

// parseSeries takes a name and its labels apart, as they stand on a page of metrics.
func parseSeries(s string) (name string, labels map[string]string, err error) {
	name, rest, found := strings.Cut(s, "{")
	labels = map[string]string{}
	if !found {
		return name, labels, nil
	}
	if !strings.HasSuffix(rest, "}") {
		return "", nil, fmt.Errorf("series %q lacks a brace", s)
	}
	for _, m := range label.FindAllStringSubmatch(rest, -1) {
		labels[m[1]] = m[2]
	}
	return name, labels, nil
}

func contains(has, labels map[string]string) bool {
	for k, v := range labels {
		if has[k] != v {
			return false
		}
	}
	return true
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// prober asks the daemon all the time.
type prober struct {
	cancel  context.CancelFunc
	done    chan struct{}
	asked   int
	slowest time.Duration
	failed  []string
}

// probePeriod is between two questions: often enough to meet every repair, and next to no work.
const probePeriod = 50 * time.Millisecond

func (n *node) cmdProbe(_ *testscript.TestScript, args []string) error {
	if n.prober != nil {
		return errUsage
	}
	paths := []string{"/metrics", "/-/healthy"}
	if len(args) > 0 {
		paths = args
	}
	// It may be ready before it answers.
	if err := n.await("an answer", func() (bool, string) {
		code, _, err := n.get("/-/healthy")
		return code == http.StatusOK, fmt.Sprint(code, err)
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &prober{cancel: cancel, done: make(chan struct{})}
	n.prober = p
	go func() {
		defer close(p.done)
		tick := time.NewTicker(probePeriod)
		defer tick.Stop()
		for {
			for _, path := range paths {
				began := time.Now()
				code, body, err := n.ask(ctx, path)
				if ctx.Err() != nil {
					return
				}
				p.asked++
				p.slowest = max(p.slowest, time.Since(began))
				if err != nil || code != http.StatusOK {
					p.failed = append(p.failed, fmt.Sprint(path, ": ", code, " ", body[:min(len(body), 100)], " ", err))
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return nil
}

func (p *prober) stop() {
	p.cancel()
	<-p.done
}

func (n *node) cmdAnswered(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 || args[0] != "within" || n.prober == nil {
		return errUsage
	}
	limit, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	p := n.prober
	n.prober = nil
	p.stop()
	ts.Logf("%d questions, the slowest answer took %s", p.asked, p.slowest.Round(time.Millisecond))
	switch {
	case len(p.failed) > 0:
		return fmt.Errorf("%d of %d questions failed, the first: %s", len(p.failed), p.asked, p.failed[0])
	case p.slowest > limit:
		return fmt.Errorf("the slowest answer took %s, more than %s", p.slowest, limit)
	}
	return nil
}
