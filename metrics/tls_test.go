package metrics

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return authority{cert, key, pool}
}

// sign gives certificate and key of 127.0.0.1, for servers and clients.
func (a authority) sign(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	password     = "swordfish"
	passwordHash = "$2a$04$F5CfTBTj2x83p7PMbop.Z.Wue8hXeWInytBBBa.NHTKUHruk2fkWm" // bcrypt, cost 4
	webConfig    = `tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
basic_auth_users:
  prometheus: HASH
`
)

// TestWebConfig: TLS, client certificates and basic auth from real files; a renewed certificate and a changed user need no
// restart, a file broken later lets nobody in and is put right as easily; the unix socket needs none of it.
func TestWebConfig(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	ca := newAuthority(t)
	renew := func(serial int64) {
		certificate, key := ca.sign(t, serial)
		write(t, file("server.key"), key)
		write(t, file("server.crt"), certificate)
	}
	renew(100)
	write(t, file("ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}))
	config := strings.ReplaceAll(webConfig, "HASH", passwordHash)
	write(t, file("web.yml"), []byte(config))
	pair, err := tls.X509KeyPair(ca.sign(t, 7))
	if err != nil {
		t.Fatal(err)
	}

	core, logs := observer.New(zap.InfoLevel)
	socket := file("bulkshaper.sock")
	address := serve(t, ServeOptions{WebConfig: file("web.yml"), Socket: socket, Handler: testHandler(incident()), Log: zap.New(core)})

	var serial int64
	transport := func(certificates ...tls.Certificate) *http.Transport {
		return &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
			RootCAs: ca.pool, Certificates: certificates,
			VerifyConnection: func(s tls.ConnectionState) error { serial = s.PeerCertificates[0].SerialNumber.Int64(); return nil },
		}}
	}
	as := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	for _, test := range []struct {
		name string
		auth func(*http.Request)
		want int
	}{
		{"with password", as("prometheus", password), http.StatusOK},
		{"wrong password", as("prometheus", "x"), http.StatusUnauthorized},
		{"wrong user", as("root", password), http.StatusUnauthorized},
		{"no password", func(*http.Request) {}, http.StatusUnauthorized},
	} {
		code, body, err := get(t, transport(pair), "https://"+address+"/metrics", test.auth)
		if err != nil || code != test.want || strings.Contains(body, "bulkshaper_in_sync 1") != (test.want == http.StatusOK) {
			t.Errorf("%s: %d %v, want %d", test.name, code, err, test.want)
		}
	}
	if code, _, err := get(t, transport(), "https://"+address+"/metrics", as("prometheus", password)); err == nil {
		t.Errorf("without a client certificate: %d", code)
	}
	if code, _, err := get(t, nil, "http://"+address+"/metrics", as("prometheus", password)); err == nil && code == http.StatusOK {
		t.Error("plain HTTP is answered")
	}

	if serial != 100 {
		t.Errorf("served certificate %d", serial)
	}
	renew(101)
	if code, _, err := get(t, transport(pair), "https://"+address+"/metrics", as("prometheus", password)); err != nil || code != http.StatusOK || serial != 101 {
		t.Errorf("after a renewal: %d %v, certificate %d", code, err, serial)
	}
	write(t, file("web.yml"), []byte(strings.ReplaceAll(config, "prometheus", "other")))
	if code, _, err := get(t, transport(pair), "https://"+address+"/metrics", as("prometheus", password)); err != nil || code != http.StatusUnauthorized {
		t.Errorf("a user who was removed: %d %v", code, err)
	}
	write(t, file("web.yml"), []byte(config+"  other: "+passwordHash+"\n"))
	for _, user := range []string{"prometheus", "other"} {
		if code, _, err := get(t, transport(pair), "https://"+address+"/metrics", as(user, password)); err != nil || code != http.StatusOK {
			t.Errorf("user %s after one was added: %d %v", user, code, err)
		}
	}
	write(t, file("web.yml"), []byte("tls_server_config: ["))
	// Not each failed handshake is looked into.
	for end, told := time.Now().Add(30*time.Second), 0; told == 0 && time.Now().Before(end); told = logs.FilterLevelExact(zap.ErrorLevel).Len() {
		if code, _, err := get(t, transport(pair), "https://"+address+"/metrics", as("prometheus", password)); err == nil {
			t.Errorf("a broken web config: %d", code)
		}
	}
	write(t, file("web.yml"), []byte(config))
	if code, _, err := get(t, transport(pair), "https://"+address+"/metrics", as("prometheus", password)); err != nil || code != http.StatusOK {
		t.Errorf("the web config put right: %d %v", code, err)
	}

	over := &http.Transport{DialContext: dialUnix(socket)}
	if code, body, err := get(t, over, "http://bulkshaper/api/v1/status"); err != nil || code != http.StatusOK {
		t.Errorf("over the socket: %d %v %s", code, err, body)
	}
	if entries := logs.All(); len(entries) != 2 || entries[0].Message != "listening" || entries[1].Level != zap.ErrorLevel {
		t.Errorf("two lines are due, that it listens and that the web config is broken: %v", entries)
	}
}

// TestBadWebConfig: said before anything is open, with the file's name.
func TestBadWebConfig(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"unknown key":    "tls_server_configs: {}\n",
		"no certificate": "tls_server_config: {cert_file: missing.crt, key_file: missing.key}\n",
		"plain password": "basic_auth_users: {prometheus: swordfish}\n",
		"not YAML":       "a: [\n",
	} {
		path := filepath.Join(folder, strings.ReplaceAll(name, " ", "-"))
		write(t, path, []byte(text))
		err := Serve(t.Context(), ServeOptions{Listen: "127.0.0.1:0", WebConfig: path, Handler: http.NotFoundHandler(), Log: zap.NewNop(),
			Listening: func(net.Addr) { t.Errorf("%s: it listens", name) }})
		if err == nil || !strings.HasPrefix(err.Error(), "read metrics.web_config "+path+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := Serve(t.Context(), ServeOptions{WebConfig: filepath.Join(folder, "none"), Handler: http.NotFoundHandler(), Log: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: %v", err)
	}
}
