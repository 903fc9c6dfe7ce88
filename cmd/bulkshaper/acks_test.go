package main

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bulkshaper/cmd/bulkshaper/view"
)

// takeFrom keeps the node taking data from a server of the world, which it acknowledges. taken tells how much it has taken.
func takeFrom(t *testing.T, h *host, from string) (taken func() int) {
	t.Helper()
	network, all := "tcp4", "0.0.0.0:0"
	if strings.Contains(from, ":") {
		network, all = "tcp6", "[::]:0"
	}
	var listener net.Listener
	var conn net.Conn
	var err error
	h.Peer().Do(func() { listener, err = net.Listen(network, all) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		server, err := listener.Accept()
		if err != nil {
			return
		}
		defer server.Close()
		for buffer := make([]byte, 64<<10); err == nil; {
			_, err = server.Write(buffer)
		}
	}()
	h.Do(func() {
		conn, err = net.Dial(network, net.JoinHostPort(from, fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func() int {
		n, err := conn.Read(make([]byte, 64<<10))
		if err != nil {
			t.Fatalf("the connection to %s has ended: %v", from, err)
		}
		return n
	}
}

// TestAckClass switches the class for acknowledgements on and off under connections: the acknowledgements change their class, the
// connections go on, and explain and plan say so.
func TestAckClass(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	dir := copyTree(t, incident)
	cfg := filepath.Join(dir, "config.yaml")
	without := read(t, cfg)
	with := strings.Replace(without, "classes:\n", "classes:\n  acks: {id: 40, rate: 30mbit}\n", 1) + "\nack_class: acks\n"
	h.must("apply", "--config", cfg)
	h.must("explain", "hadoop28", "--config", cfg)

	sources := []string{"10.241.29.28", "192.0.2.77"} // hadoop28 of the same cabinet, and nobody's
	var taken []func() int
	for _, from := range append(sources, "2001:db8:77::1") {
		taken = append(taken, takeFrom(t, h, from))
	}
	// acks is how many packets the class for them sent while 2 MB were taken from each source.
	acks := func() uint64 {
		before := h.class(t, cfg, "acks")
		for _, take := range taken {
			for got := 0; got < 2_000_000; {
				got += take()
			}
		}
		return h.class(t, cfg, "acks") - before
	}

	edit(t, cfg, with)
	plan := h.must("plan", "--config", cfg)
	if !strings.Contains(plan, "all hitless") || !strings.Contains(plan, "2 filters for TCP acknowledgements to acks 1:40") {
		t.Errorf("plan of switching on:\n%s", plan)
	}
	if full := h.must("plan", "--full", "--config", cfg); !regexp.MustCompile(`tcp acknowledgements +- +ack_class +acks +1:40`).MatchString(full) {
		t.Errorf("plan --full does not say where acknowledgements go:\n%s", full)
	}
	r := h.run("explain", "hadoop28", "--config", cfg)
	if r.code != exitDiffers || !regexp.MustCompile(`(?s)class +same-cabinet 1:10, .*\n +kernel .*agrees\n +acks +pure TCP acknowledgements: acks 1:40, by ack_class, ahead of all rules\n +kernel +same-cabinet 1:10 by filter .*DISAGREES`).MatchString(r.stdout) {
		t.Errorf("explain before apply: exit %d\n%s", r.code, r.stdout)
	}
	h.must("apply", "--config", cfg)
	if got := acks(); got < 100 {
		t.Errorf("%d acknowledgements in their class after 6 MB", got)
	}
	var answers []view.Explanation
	if err := json.Unmarshal([]byte(h.must("explain", "hadoop28", "192.0.2.77", "2001:db8:77::1", "--format", "json", "--config", cfg)), &answers); err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Ack == nil || a.Ack.Rule != "ack_class" || a.Ack.ClassID != "1:40" || a.Ack.Kernel.ClassID != "1:40" || !a.Ack.Kernel.Agrees || !a.Kernel.Agrees {
			t.Errorf("explain %s: %+v", a.Destination, a.Ack)
		}
	}
	h.must("plan", "--exit-code", "--config", cfg)

	// Off again, the class stays for a moment: its filters are gone, and nothing is sent there.
	edit(t, cfg, strings.Replace(with, "ack_class: acks", "", 1))
	if plan := h.must("plan", "--config", cfg); !strings.Contains(plan, "all hitless") || !strings.Contains(plan, "2 filters for TCP acknowledgements to acks 1:40") {
		t.Errorf("plan of switching off:\n%s", plan)
	}
	r = h.run("explain", "hadoop28", "--config", cfg)
	if r.code != exitDiffers || !regexp.MustCompile(`acks +pure TCP acknowledgements: same-cabinet 1:10, as all else\n +kernel +acks 1:40 by .*DISAGREES`).MatchString(r.stdout) {
		t.Errorf("explain of acknowledgements that still have a class: exit %d\n%s", r.code, r.stdout)
	}
	h.must("apply", "--config", cfg)
	if got := acks(); got != 0 {
		t.Errorf("%d acknowledgements in a class that has them no more", got)
	}
	if out := h.must("explain", "hadoop28", "--config", cfg); strings.Contains(out, "acks") {
		t.Errorf("explain speaks of acknowledgements where there is nothing to say:\n%s", out)
	}
	edit(t, cfg, without)
	h.must("apply", "--config", cfg)
	h.must("plan", "--exit-code", "--config", cfg)
}

// class is how many packets a class has sent.
func (h *host) class(t *testing.T, cfg, name string) uint64 {
	t.Helper()
	var status struct {
		Classes []struct {
			Name    string `json:"name"`
			Packets uint64 `json:"sent_packets"`
		} `json:"classes"`
	}
	if err := json.Unmarshal([]byte(h.must("status", "--format", "json", "--config", cfg)), &status); err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Classes {
		if c.Name == name {
			return c.Packets
		}
	}
	t.Fatalf("status has no class %s", name)
	return 0
}
