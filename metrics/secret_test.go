package metrics

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestNothingOfTheWebConfigIsTold breaks web configs so that decoders would quote them. The secret is in no error, no line of the log and
// no answer, and a file that is broken while it serves is told of once, and again when it is broken otherwise.
//
// PROMISES.md: The web config is broken while it serves
func TestNothingOfTheWebConfigIsTold(t *testing.T) {
	const secret = "swordfish"
	path := filepath.Join(t.TempDir(), "web.yml")
	broken := []string{
		`basic_auth_users: "alice:swordfish"`, `basic_auth_users: swordfish`, `swordfish`, `basic_auth_users: {alice: *swordfish}`,
		`basic_auth_users: {alice: swordfish}`, `basic_auth_users: {alice: [swordfish]}`, `basic_auth_users: {alice: !!int swordfish}`,
		"basic_auth_users:\n  alice: !!int |\n    `swordfish`\n", `tls_server_config: {key: {a: swordfish}}`, `tls_server_config: {key: swordfish, cert: swordfish}`,
		`tls_server_config: swordfish`, `rate_limit: {burst: swordfish}`, "basic_auth_users:\n alice: swordfish\n swordfish\n",
		`basic_auth_users: {alice: $2a$99$swordfishswordfish.Z.Wue8hXeWInytBBBa.NHTKUHruk2fkWm}`, `basic_auth_users: {alice: "\swordfish"}`,
	}
	for _, text := range broken {
		write(t, path, []byte(text))
		for what, err := range map[string]error{
			"check": CheckWebConfig(path),
			"serve": Serve(t.Context(), ServeOptions{Listen: "127.0.0.1:0", WebConfig: path, Handler: http.NotFoundHandler(), Log: zap.NewNop()}),
		} {
			if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s of %q: %v", what, text, err)
			}
		}
	}

	core, logs := observer.New(zap.DebugLevel)
	source := incident()
	write(t, path, []byte("basic_auth_users: {prometheus: "+passwordHash+"}\n"))
	address := serve(t, ServeOptions{WebConfig: path, Handler: testHandler(source), Log: zap.New(core)})
	as := func(r *http.Request) { r.SetBasicAuth("prometheus", password) } // which is the secret as well
	for _, page := range []string{"/", "/metrics", "/api/v1/status", "/-/healthy", "/-/ready"} {
		code, body, err := get(t, nil, "http://"+address+page, as)
		if err != nil || code != http.StatusOK || strings.Contains(body, secret) || strings.Contains(body, passwordHash) || strings.Contains(body, path) {
			t.Errorf("%s: %d %v\n%s", page, code, err, body)
		}
	}
	for _, text := range []string{broken[0], broken[3]} {
		write(t, path, []byte(text))
		for range 3 {
			code, body, err := get(t, nil, "http://"+address+"/metrics", as)
			if err != nil || code != http.StatusInternalServerError || strings.Contains(body, secret) {
				t.Errorf("with a broken web config: %d %v %s", code, err, body)
			}
		}
	}
	// What TLS makes of a broken one goes through the server's own log.
	errorLog := ServeOptions{WebConfig: path, Log: zap.New(core)}.errorLog()
	errorLog.Print("http: TLS handshake error from 127.0.0.1:4711: yaml: cannot unmarshal !!str `swordfish` into web.Config")

	var errs []string
	for _, e := range logs.All() {
		line := e.Message
		for key, value := range e.ContextMap() {
			line += " " + key + "=" + fmt.Sprint(value)
		}
		if strings.Contains(line, secret) || strings.Contains(line, passwordHash) {
			t.Errorf("the log has %s", line)
		}
		if e.Level > zap.InfoLevel {
			errs = append(errs, line)
		}
	}
	if len(errs) != 3 || errs[0] == errs[1] || !strings.Contains(errs[2], "nobody is let in") {
		t.Errorf("two lines are due for two mistakes, and one for the handshake: %q", errs)
	}
}
