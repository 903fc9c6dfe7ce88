package metrics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchWebConfig: what is wrong with a web config is told while it is, and not longer; it is read once a second at most.
func TestWatchWebConfig(t *testing.T) {
	if why := WatchWebConfig("")(); why != "" {
		t.Errorf("without one: %s", why)
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "web.yml")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("basic_auth_users: {}\n")
		ask := WatchWebConfig(path)
		if why := ask(); why != "" {
			t.Errorf("a right one: %s", why)
		}
		write("tls_server_config: {cert_file: away.pem, key_file: away.key}\n")
		if why := ask(); why != "" {
			t.Errorf("read again within the second: %s", why)
		}
		time.Sleep(lookAgain)
		if why := ask(); !strings.Contains(why, "read metrics.web_config "+path) || !strings.Contains(why, "away") {
			t.Errorf("a key that is away: %q", why)
		}
		write("basic_auth_users: {}\n")
		time.Sleep(lookAgain)
		if why := ask(); why != "" {
			t.Errorf("put right: %s", why)
		}
	})
}
