package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRatesAreReached sends TCP through classes of three rates, with the bursts that the program computes. Goodput is a ratio
// to the payload limit of the rate. A busy machine makes it too low, or, where the receiver stood still before its time was taken, too high, but
// not in all tries.
func TestRatesAreReached(t *testing.T) {
	for _, c := range []struct {
		rate string
		bits float64
	}{{"10mbit", 10e6}, {"204800kbit", 204.8e6}, {"819200kbit", 819.2e6}} {
		t.Run(c.rate, func(t *testing.T) {
			h := newHost(t)
			dir := t.TempDir()
			files := map[string]string{
				"roles.json":   `{"servers": ["a", "b"], "roles": ["bulk"], "mapping": {"bulk": ["a", "b"]}}`,
				"jsons/a.json": `{"name": "a", "ip_address": "192.0.2.1", "cabinet": 1}`,
				"jsons/b.json": `{"name": "b", "ip_address": "198.51.100.7", "cabinet": 1}`,
				"config.yaml":  fmt.Sprintf("interface: eth1\nlayout: list\ninventory: {roles: roles.json, servers: [jsons]}\nclasses: {same: {id: 10, rate: %s}, default: {id: 100, rate: 1mbit}}\ndefault_class: default\nrules: [{name: same, match: {cabinet: same}, class: same}]\n", c.rate),
			}
			if err := os.Mkdir(filepath.Join(dir, "jsons"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h.must("apply", "--config", filepath.Join(dir, "config.yaml"))
			limit := c.bits * payloadShare
			var seen []string
			for range 12 {
				share := h.goodput(t, "198.51.100.7:7001") / limit
				seen = append(seen, fmt.Sprintf("%.2f %%", share*100))
				if share > 0.98 && share < 1.02 {
					t.Logf("%s: %v of the payload limit", c.rate, seen)
					return
				}
			}
			t.Errorf("goodput is %v of the payload limit of %s", seen, c.rate)
		})
	}
}

// goodput is what one TCP flow from the node to address carries, bits per second at the receiver, after the first half second.
func (h *host) goodput(t *testing.T, address string) float64 {
	t.Helper()
	const warm, measured = 500 * time.Millisecond, 2500 * time.Millisecond
	var listener net.Listener
	var err error
	h.Peer().Do(func() { listener, err = net.Listen("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	rates := make(chan float64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			rates <- 0
			return
		}
		defer conn.Close()
		buffer := make([]byte, 1<<18)
		begin := time.Now()
		var start time.Time
		bytes := 0
		for {
			n, err := conn.Read(buffer)
			now := time.Now()
			if start.IsZero() {
				if now.Sub(begin) >= warm {
					start = now
				}
			} else {
				bytes += n
			}
			if err != nil || !start.IsZero() && now.Sub(start) >= measured {
				rates <- float64(bytes) * 8 / now.Sub(start).Seconds()
				return
			}
		}
	}()
	var conn net.Conn
	h.Do(func() { conn, err = net.DialTimeout("tcp", address, 5*time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(warm + measured + 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(conn, endless{}) // ends when the receiver has seen enough
	if err == nil {
		t.Fatal("the receiver took everything")
	}
	return <-rates
}

// endless is zeros without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
