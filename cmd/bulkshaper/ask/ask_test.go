package ask

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/shaper/config"
)

// TestPlaces: the socket first; of the port what an address in the config means to somebody on the node, and none that wants a password.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{":9825": "http://localhost:9825", "0.0.0.0:9825": "http://localhost:9825", "[::]:1": "http://localhost:1",
		"10.1.2.3:9825": "http://10.1.2.3:9825", "[fd00::1]:9825": "http://[fd00::1]:9825", "": "", "127.0.0.1:0": ""} {
		cfg := config.Default()
		cfg.RunDir, cfg.Listen = "/r", listen
		var urls []string
		for _, d := range Places(cfg) {
			urls = append(urls, d.url)
		}
		if got := strings.Join(urls, " "); got != strings.TrimSpace("http://daemon "+want) {
			t.Errorf("%q: %s", listen, got)
		}
		cfg.WebConfig = "web.yml"
		if n := len(Places(cfg)); n != 1 {
			t.Errorf("%q with a web config: %d places", listen, n)
		}
	}
}

// TestFirst takes the first that shapes the interface that is meant, and says of each other place why not.
func TestFirst(t *testing.T) {
	t.Parallel()
	serve := func(dir, answer string, code int) *Daemon {
		t.Helper()
		listener, err := net.Listen("unix", filepath.Join(dir, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/status" {
				t.Errorf("asked for %s", r.URL)
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(answer))
		}))
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
		return Socket(dir)
	}
	broken, other, mine := serve(t.TempDir(), `{"error": "counters cannot be read"}`, 503), serve(t.TempDir(), `{"interface": "eth1"}`, 200), serve(t.TempDir(), `{"interface": "eth2", "node": "n"}`, 200)
	stranger, nobody := serve(t.TempDir(), `{}`, 200), Socket("/absent")
	d, s, err := First(context.Background(), []*Daemon{nobody, stranger, broken, other, mine}, "eth2")
	if err != nil || d != mine || s.Node != "n" {
		t.Errorf("%v %+v %v", d, s, err)
	}
	if d, _, err := First(context.Background(), []*Daemon{other, mine}, ""); err != nil || d != other {
		t.Errorf("of any interface: %v %v", d, err)
	}
	_, _, err = First(context.Background(), []*Daemon{nobody, stranger, broken, other}, "eth2")
	var silent *SilentError
	if !errors.As(err, &silent) || silent.Denied != "" || len(silent.Tried) != 4 {
		t.Fatalf("%+v", err)
	}
	for i, text := range []string{"no such file or directory", "something else than bulkshaper answers there", "counters cannot be read", "shapes eth1, not eth2"} {
		if !strings.Contains(silent.Tried[i], text) {
			t.Errorf("%q does not say %q", silent.Tried[i], text)
		}
	}
}

// TestGroupThatMayAsk is named where it is of help: not root's, and not one that may not ask either.
func TestGroupThatMayAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gid  uint32
		mode fs.FileMode
		want string
	}{{0, 0o660, ""}, {4_000_000, 0o600, ""}, {4_000_000, 0o660, ", or as a member of group gid 4000000"}} {
		if got := groupText(c.gid, c.mode); got != c.want {
			t.Errorf("gid %d, mode %s: %q, want %q", c.gid, c.mode, got, c.want)
		}
	}
}
