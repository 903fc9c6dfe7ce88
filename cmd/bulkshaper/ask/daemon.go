package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"bulkshaper/metrics"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
)

// SocketName is where in the run folder the daemon answers.
const SocketName = "bulkshaper.sock"

const (
	// timeout is how long a daemon has for an answer.
	timeout = 5 * time.Second
	// patience is how long it has for the first word. It takes milliseconds, also with 100,000 servers; who asks of a node that hangs
	// wants to hear what can be told without it.
	patience = 2 * time.Second
)

// Daemon is a place at which one may answer.
type Daemon struct {
	// Name says where that is, in words.
	Name   string
	socket string // "" for a port
	url    string
	client *http.Client
}

// Socket is the daemon whose run folder that is.
func Socket(runDir string) *Daemon {
	path := filepath.Join(runDir, SocketName)
	return &Daemon{Name: "the daemon at " + path, socket: path, url: "http://daemon", client: client(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	})}
}

// Places are where the daemon of a config answers. A port that asks for TLS or a password is none of them.
func Places(cfg *config.Config) []*Daemon {
	list := []*Daemon{Socket(cfg.RunDir)}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil || cfg.WebConfig != "" || port == "0" {
		return list
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	at := "http://" + net.JoinHostPort(host, port)
	return append(list, &Daemon{Name: "the daemon at " + at, url: at, client: client((&net.Dialer{}).DialContext)})
}

func client(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// Status is the status as it is now.
func (d *Daemon) Status(ctx context.Context) (s shaper.Status, err error) {
	err = d.get(ctx, "/api/v1/status", &s)
	if err == nil && s.Interface == "" {
		err = fmt.Errorf("ask %s: something else than bulkshaper answers there", d.Name)
	}
	return s, err
}

// Recent is what the classes sent of late.
func (d *Daemon) Recent(ctx context.Context) (r shaper.Recent, err error) {
	err = d.get(ctx, "/api/v1/rates", &r)
	return r, err
}

// History is what happened.
func (d *Daemon) History(ctx context.Context) (h metrics.HistoryAnswer, err error) {
	err = d.get(ctx, "/api/v1/history", &h)
	return h, err
}

// Find is which class a server or an address is in, by the plan that the daemon holds.
func (d *Daemon) Find(ctx context.Context, dest string) (f shaper.Finding, err error) {
	err = d.get(ctx, "/api/v1/explain?dest="+url.QueryEscape(dest), &f)
	return f, err
}

func (d *Daemon) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return err
	}
	start := time.Now()
	response, err := d.client.Do(request)
	if timedOut(err) {
		return &HangError{d.Name, time.Since(start)}
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var said struct{ Error string }
		_ = json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&said) // what it says besides is welcome, not needed
		return fmt.Errorf("ask %s: %s", d.Name, strings.TrimSpace(response.Status+" "+said.Error))
	}
	err = json.NewDecoder(response.Body).Decode(into)
	if timedOut(err) {
		return &HangError{d.Name, time.Since(start)}
	}
	if err != nil {
		return fmt.Errorf("ask %s: read its answer: %w", d.Name, err)
	}
	return nil
}

// HangError says that somebody is there and does not answer.
type HangError struct {
	Name  string // of the daemon
	After time.Duration
}

func (e *HangError) Error() string { return "ask " + e.Name + ": " + e.why() }

func (e *HangError) why() string {
	return fmt.Sprintf("no answer within %s", e.After.Round(time.Second/10))
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// cause is the kernel's word for why nobody answered, without the way there.
func cause(err error) string {
	var hang *HangError
	if errors.As(err, &hang) {
		return hang.why()
	}
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
