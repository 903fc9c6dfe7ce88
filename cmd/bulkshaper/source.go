package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
)

// asker gives the status as it is now.
type asker func(context.Context) (shaper.Status, error)

// source is who tells the status.
type source struct {
	ask asker
	// recent is what the classes sent of late; nil where nobody has kept it.
	recent func(context.Context) (shaper.Recent, error)
	// name says who it is, in words.
	name  string
	close func()
}

// statusSource is the daemon at its socket, else at its port, or without a daemon that answers our own reading. A config that was
// broken since the daemon read it does not keep it from answering.
func (f *inputFlags) statusSource(ctx context.Context, stderr io.Writer) (*source, error) {
	cfg, broken := f.configOnly()
	if broken != nil {
		cfg = config.Default()
		if dir := f.keys.single["run-dir"]; *dir != "" {
			cfg.RunDir = *dir
		}
	}
	var silent []string
	for _, d := range daemons(cfg) {
		s, err := d.ask(ctx)
		if err != nil {
			silent = append(silent, d.name+": "+cause(err))
			continue
		}
		if name := *f.keys.single["interface"]; name != "" && name != s.Interface {
			silent = append(silent, fmt.Sprintf("%s shapes %s, not %s", d.name, s.Interface, name))
			continue
		}
		if broken != nil {
			fmt.Fprintf(stderr, "warning: the daemon's answer; the config as it is now is wrong: %v\n", broken)
		}
		return d, nil
	}
	l, err := f.openLocal(ctx)
	if err != nil {
		return nil, err
	}
	name := "this command, which has read files and kernel itself: no daemon answers (" + strings.Join(silent, "; ") + ")"
	return &source{ask: l.ask, name: name, close: l.close}, nil
}

// daemons are the places at which the daemon of this config answers.
func daemons(cfg *config.Config) []*source {
	socket := filepath.Join(cfg.RunDir, socketName)
	list := []*source{daemonAt("the daemon at "+socket, "http://daemon", unixClient(socket))}
	if host, port, err := net.SplitHostPort(cfg.Listen); err == nil && cfg.WebConfig == "" && port != "0" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		url := "http://" + net.JoinHostPort(host, port)
		list = append(list, daemonAt("the daemon at "+url, url, plainClient(&net.Dialer{})))
	}
	return list
}

// askTimeout is how long a daemon has for an answer.
const askTimeout = 5 * time.Second

func plainClient(dialer *net.Dialer) *http.Client {
	return &http.Client{Timeout: askTimeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
}

func unixClient(socket string) *http.Client {
	return &http.Client{Timeout: askTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

func daemonAsker(socket string) asker {
	return daemonAt("the daemon at "+socket, "http://daemon", unixClient(socket)).ask
}

func daemonAt(name, url string, client *http.Client) *source {
	return &source{name: name, close: func() {},
		ask: func(ctx context.Context) (s shaper.Status, err error) {
			err = get(ctx, client, url+"/api/v1/status", name, &s)
			if err == nil && s.Interface == "" {
				err = fmt.Errorf("ask %s: something else than bulkshaper answers there", name)
			}
			return s, err
		},
		recent: func(ctx context.Context) (r shaper.Recent, err error) {
			err = get(ctx, client, url+"/api/v1/rates", name, &r)
			return r, err
		},
	}
}

func get(ctx context.Context, client *http.Client, url, name string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var said struct{ Error string }
		_ = json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&said) // what it says besides is welcome, not needed
		return fmt.Errorf("ask %s: %s", name, strings.TrimSpace(response.Status+" "+said.Error))
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("ask %s: read its answer: %w", name, err)
	}
	return nil
}

// cause is the kernel's word for why nobody answered, without the way there.
func cause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
