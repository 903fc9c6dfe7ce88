package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper"
	"bulkshaper/shaper/tc"
)

// serve runs Serve until the test ends, and gives the address it listens at.
func serve(t *testing.T, o ServeOptions) string {
	t.Helper()
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Listen = "127.0.0.1:0"
	address := make(chan string, 1)
	o.Listening = func(a net.Addr) { address <- a.String() }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	})
	select {
	case a := <-address:
		return a
	case err := <-ended:
		ended <- nil
		t.Fatalf("Serve: %v", err)
		return ""
	}
}

func dialUnix(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
}

// get asks with a client of its own, whose connections end with it.
func get(t *testing.T, transport *http.Transport, url string, change ...func(*http.Request)) (int, string, error) {
	t.Helper()
	if transport == nil {
		transport = &http.Transport{}
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// TestManyScrapes: 200 at once, while the loop counts and the kernel changes; each gets a whole answer.
func TestManyScrapes(t *testing.T) {
	source := incident()
	reg := prometheus.NewRegistry()
	r := NewRecorder(reg)
	reg.MustRegister(NewCollector(source))
	handler := newScrapeHandler(reg, zap.NewNop())
	handler.wait = time.Minute // the race detector on a busy machine is no matter here
	address := serve(t, ServeOptions{Handler: handler, writeTimeout: time.Minute})

	stop := make(chan struct{})
	var counting, scraping sync.WaitGroup
	counting.Go(func() {
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r.Operation(tc.Op{Verb: tc.Add, Object: tc.Filter{}}, nil)
			r.Reload(shaper.ReloadUnchanged, time.Now())
			r.Applied(time.Duration(i))
			source.set(func(f *fakeSource) {
				classes := append([]tc.ClassStats(nil), f.stats.Classes...)
				classes[0].SentBytes = i
				f.stats.Classes = classes
			})
			runtime.Gosched()
		}
	})
	for range 200 {
		scraping.Go(func() {
			code, body, err := get(t, nil, "http://"+address+"/metrics")
			if err != nil || code != http.StatusOK || !strings.HasSuffix(body, "bulkshaper_scrape_errors_total 0\n") {
				t.Errorf("scrape: %d %v, %d bytes", code, err, len(body))
			}
		})
	}
	scraping.Wait()
	close(stop)
	counting.Wait()
}

// TestScraperThatNeverReads: its connection is cut when the write times out, and until then everybody else is served.
func TestScraperThatNeverReads(t *testing.T) {
	handler := newScrapeHandler(prometheus.NewRegistry(), zap.NewNop())
	huge := make([]byte, 8<<20) // more than the socket buffers hold
	handler.next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(huge) })
	done := make(chan struct{}, 2*scrapesAtOnce)
	address := serve(t, ServeOptions{writeTimeout: 3 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			handler.ServeHTTP(w, r)
			done <- struct{}{}
		}
	})})
	for range scrapesAtOnce + 1 { // more than there are turns
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if err := connection.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(connection, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	code, body, err := get(t, nil, "http://"+address+"/metrics")
	if err != nil || code != http.StatusOK || len(body) != len(huge) {
		t.Errorf("a scrape beside them: %d %v, %d bytes", code, err, len(body))
	}
	for range scrapesAtOnce + 2 {
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("a scraper that never reads is still being written to")
		}
	}
}

// TestSilentClient: who connects and says nothing, or too much, is let go.
func TestSilentClient(t *testing.T) {
	address := serve(t, ServeOptions{Handler: testHandler(incident())})
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	// The server may close before it has read everything, so writing may fail; what counts is the answer.
	_, _ = connection.Write(append([]byte("GET / HTTP/1.1\r\nHost: x\r\nX: "), bytes.Repeat([]byte("x"), 2*maxHeaderBytes)...))
	answer := make([]byte, 12)
	if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != "HTTP/1.1 431" {
		t.Errorf("a header of %d bytes: %q %v, want 431", 2*maxHeaderBytes, answer, err)
	}
	server := ServeOptions{Log: zap.NewNop()}.server()
	for name, timeout := range map[string]time.Duration{
		"ReadHeaderTimeout": server.ReadHeaderTimeout, "ReadTimeout": server.ReadTimeout,
		"WriteTimeout": server.WriteTimeout, "IdleTimeout": server.IdleTimeout,
	} {
		if timeout <= 0 {
			t.Errorf("no %s", name)
		}
	}
}

func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		taken.Addr().String(): "another program has the port; end it or set metrics.listen to another",
		"192.0.2.1:9825":      "no interface of this node has that address",
		"9825":                "metrics.listen is an address like :9825",
	} {
		err := Serve(t.Context(), ServeOptions{Listen: address, Handler: http.NotFoundHandler(), Log: zap.NewNop()})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "listen on "+address+": ") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

// TestSocket: made with its mode, answers, and goes with the server; what lies there is only removed when it is a dead socket.
func TestSocket(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "bulkshaper.sock")
	overSocket := func() *http.Transport { return &http.Transport{DialContext: dialUnix(path)} }
	try := func() error {
		return Serve(t.Context(), ServeOptions{Socket: path, Handler: http.NotFoundHandler(), Log: zap.NewNop()})
	}

	if err := os.WriteFile(path, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := try(); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file in its place: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "notes" {
		t.Errorf("the file is now %q, %v", text, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	// A socket as a killed process leaves it.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}

	t.Run("serving", func(t *testing.T) {
		serve(t, ServeOptions{Socket: path, Handler: testHandler(incident())})
		info, err := os.Stat(path)
		if err != nil || info.Mode() != fs.ModeSocket|0o660 {
			t.Errorf("socket: %v %v", info.Mode(), err)
		}
		code, body, err := get(t, overSocket(), "http://bulkshaper/api/v1/status")
		if err != nil || code != http.StatusOK || !strings.Contains(body, `"node": "hadoop27"`) {
			t.Errorf("%d %v %s", code, err, body)
		}
		if err := try(); err == nil || !strings.Contains(err.Error(), "another bulkshaper answers there") {
			t.Errorf("a second server: %v", err)
		}
		if code, _, err := get(t, overSocket(), "http://bulkshaper/-/healthy"); err != nil || code != http.StatusOK {
			t.Errorf("after a second server: %d %v", code, err)
		}
	})
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after the end: %v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = Serve(t.Context(), ServeOptions{Socket: path, Listen: taken.Addr().String(), Handler: http.NotFoundHandler(), Log: zap.NewNop()})
	if !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a socket and a taken port: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after that: %v", err)
	}
	path = filepath.Join(folder, "missing", "bulkshaper.sock")
	if err := try(); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no run folder: %v", err)
	}
}

// TestStop: a request that runs is finished before Serve returns.
func TestStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked, address, ended := make(chan struct{}), make(chan string, 1), make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-ctx.Done()
		fmt.Fprint(w, "finished")
	})
	go func() {
		ended <- Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", Handler: handler, Log: zap.NewNop(),
			Listening: func(a net.Addr) { address <- a.String() }})
	}()
	go func() {
		<-asked
		cancel()
	}()
	code, body, err := get(t, nil, "http://"+<-address+"/")
	if err != nil || code != http.StatusOK || body != "finished" {
		t.Errorf("%d %q %v", code, body, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
