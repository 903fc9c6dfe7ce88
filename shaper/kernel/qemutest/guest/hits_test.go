//go:build system

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"bulkshaper/shaper"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/u32"
)

// metrics reads bulkshaper_rule_matched_packets_total, by rule.
func (h *host) metrics(address string) (map[string]string, error) {
	// The daemon listens in the namespace: one connection from there.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(_ context.Context, _, to string) (conn net.Conn, err error) {
		h.Do(func() { conn, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to))) })
		return conn, err
	}}}
	answer, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^bulkshaper_rule_matched_packets_total\{rule="([^"]*)"\} (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2]
	}
	return found, nil
}

// The hits that the kernel counts come out by rule: through an edit that moves a server, a filter and a root that somebody
// deletes, and a restart, after which they begin at 0.
func TestRuleMatches(t *testing.T) {
	h := newHost(t)
	const address = "127.0.0.1:9825"
	run := func() func() {
		_, cmd := h.daemon("--resync", "1s", "--listen", address)
		return func() {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
		}
	}
	want := func(step string, same, priority, cross, other int) {
		t.Helper()
		wanted := fmt.Sprint(map[string]string{"same-cabinet": fmt.Sprint(same), "priority-role": fmt.Sprint(priority), "cross-cabinet": fmt.Sprint(cross), "default": fmt.Sprint(other)})
		eventually(t, func() string {
			got, err := h.metrics(address)
			if err == nil && fmt.Sprint(got) == wanted {
				return ""
			}
			return fmt.Sprintf("%s: got %v, %v, want %s", step, got, err, wanted)
		})
	}
	stop := run()
	want("at the start", 0, 0, 0, 0)
	h.Send(t, sameCabinet, 3)
	h.Send(t, crossCabinet, 5)
	h.Send(t, nameNode, 7)
	h.Send(t, application, 11)
	h.Send(t, stranger, 13) // no filter, so nobody's hit
	want("counted", 3, 7, 5, 11)

	file := filepath.Join(filepath.Dir(h.config), "nyc1/jsons/hadoop20.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	moved := regexp.MustCompile(`"cabinet": *"?b12"?`).ReplaceAllString(string(text), `"cabinet": "b13"`)
	if moved == string(text) {
		t.Fatalf("no cabinet b12 in %s", text)
	}
	if err := os.WriteFile(file+"~", []byte(moved), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+"~", file); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		out, code := h.try("explain", crossCabinet.String(), "--format", "json")
		if code == 0 && strings.Contains(out, `"class": "same-cabinet"`) && strings.Contains(out, `"agrees": true`) {
			return ""
		}
		return out
	})
	h.Send(t, crossCabinet, 2)
	want("after the move", 5, 7, 5, 11)

	h.TC("filter", "del", "dev", "eth1", "parent", "1:", "protocol", "ip", "pref", "12000")
	eventually(t, func() string { return standing(h) })
	h.Send(t, nameNode, 1)
	want("filters made again", 5, 8, 5, 11)

	h.TC("qdisc", "del", "dev", "eth1", "root")
	eventually(t, func() string { return standing(h) })
	h.Send(t, application, 4)
	want("root made again", 5, 8, 5, 15)

	stop()
	run()
	want("after a restart", 0, 0, 0, 0)
	h.Send(t, sameCabinet, 6)
	want("counted again", 6, 0, 0, 0)

	config, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	acks := strings.Replace(string(config), "classes:\n", "classes:\n  acks: {id: 40, rate: 30mbit}\n", 1) + "\nack_class: acks\n"
	if err := errors.Join(os.WriteFile(h.config+"~", []byte(acks), 0o644), os.Rename(h.config+"~", h.config)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if out, code := h.try("explain", sameCabinet.String()); code != 0 || !strings.Contains(out, "acks 1:40") {
			return out
		}
		return ""
	})
	ack, protocol := u32.Ack(sameCabinet)
	h.SendFrame(t, kerneltest.EthernetFrame(uint16(protocol), ack), 9)
	h.Send(t, sameCabinet, 1)
	eventually(t, func() string {
		got, err := h.metrics(address)
		if err == nil && got[shaper.AckRule] == "9" && got["same-cabinet"] == "7" {
			return ""
		}
		return fmt.Sprintf("9 acknowledgements: %v, %v", got, err)
	})
}

// Counters that grow from one reading to the next do not look like a change: the state is read under traffic without an error.
func TestObserveUnderTraffic(t *testing.T) {
	h := newHost(t)
	h.must("apply")
	k, err := kernel.Open(kernel.Options{Namespace: h.FD(), Interface: "eth1", Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	sent, end := make(chan int), make(chan struct{})
	go func() {
		n := 0
		for {
			select {
			case <-end:
				sent <- n
				return
			default:
				h.Send(t, sameCabinet, 10)
				n += 10
			}
		}
	}()
	hits := func() (last uint64) {
		s, err := k.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range s.Filters {
			if d, ok := f.Destination(); ok && d.Addr() == sameCabinet {
				last = s.Hits[i]
			}
		}
		return last
	}
	grown, last := 0, uint64(0)
	for range 200 {
		now := hits()
		if now > last {
			grown++
		}
		last = now
	}
	close(end)
	n := <-sent
	if now := hits(); now != uint64(n) || grown < 50 {
		t.Errorf("sent %d packets, %d hits, which grew between %d of 200 readings", n, now, grown)
	}
}

// standing says what is missing of the incident's filters.
func standing(h *host) string {
	out, err := h.TryTC("filter", "show", "dev", "eth1", "parent", "1:")
	if n := len(lines(out, "flowid")); err != nil || n != 25 {
		return fmt.Sprintf("%d filters, %v", n, err)
	}
	return ""
}
