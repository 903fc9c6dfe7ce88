package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/tc"
)

// guest is what a worker of these tests does: it tells what it sees of each server, and then waits for the end of its input.
func guest(words []string) int {
	guests, err := Guests(words)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := SetNice(7); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, g := range guests {
		conn, err := g.ListenUDP(netip.AddrPortFrom(g.Address, 0)) // an address that only this namespace has
		if err != nil {
			fmt.Println(err)
			return 1
		}
		conn.Close()
		fmt.Println(g.Name, g.Address)
	}
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, task := range tasks {
		id, _ := strconv.Atoi(filepath.Base(task))
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, id)
		if err == nil && 20-raw != 7 { // getpriority(2): the system call gives 20 - nice
			fmt.Println("thread", id, "has nice", 20-raw)
		}
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

func TestWorker(t *testing.T) {
	c := build(t, two())
	t.Setenv(roleVariable, "guest")
	w, err := c.Worker(nil, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for lines := bufio.NewScanner(w.Out); lines.Scan(); {
		if got = append(got, lines.Text()); lines.Text() == "ready" {
			break
		}
	}
	if want := "hadoop01 10.0.12.11,hadoop02 10.0.12.12,hadoop03 10.0.13.11,ready"; strings.Join(got, ",") != want {
		t.Errorf("the worker sees %q, want %q", got, want)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-w.Done():
	default:
		t.Error("the worker outlives its end")
	}
	if _, err := Guests([]string{"hadoop01=10.0.12.11"}); err == nil || !strings.Contains(err.Error(), "no namespace") {
		t.Errorf("took a descriptor that is no namespace: %v", err)
	}
	if _, err := Guests([]string{"hadoop01"}); err == nil {
		t.Error("took a server without an address")
	}
}

// TestDial: connections that are refused, that nobody answers, and that come.
func TestDial(t *testing.T) {
	c := build(t, two())
	from, to := c.Host("hadoop01"), c.Host("hadoop03")
	l, err := to.Listen(t.Context(), netip.AddrPortFrom(to.Address, 0))
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	conn, err := from.Dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr(); got != from.Address {
		t.Errorf("connected from %s, want %s", got, from.Address)
	}
	conn.Close()
	l.Close()
	if conn, err := from.Dial(t.Context(), at); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("to a port that is closed: %v, %v", conn, err)
	}
	// Neighbours that do not answer are looked for for three seconds; it is ctx that ends it.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if conn, err := from.Dial(ctx, netip.MustParseAddrPort("10.0.13.99:80")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("to nobody: %v, %v", conn, err)
	}
}

// TestCongestion: both ends of a connection have the topology's congestion control, and one that the kernel does not have is an error.
func TestCongestion(t *testing.T) {
	control := func(conn *net.TCPConn) (name string) {
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) }); err != nil {
			t.Fatal(err)
		}
		return name
	}
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range strings.Fields(string(text)) {
		topology := two()
		topology.Congestion = want
		c := build(t, topology)
		from, to := c.Host("hadoop01"), c.Host("hadoop03")
		l, err := to.Listen(t.Context(), netip.AddrPortFrom(to.Address, 0))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := from.Dial(t.Context(), l.Addr().(*net.TCPAddr).AddrPort())
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.AcceptTCP()
		if err != nil {
			t.Fatal(err)
		}
		if a, b := control(conn), control(other); a != want || b != want {
			t.Errorf("the ends of a connection have %s and %s, want %s", a, b, want)
		}
		conn.Close()
		other.Close()
		l.Close()
	}
	topology := two()
	topology.Congestion = "nobody"
	h := build(t, topology).Host("hadoop01")
	if _, err := h.Dial(t.Context(), netip.MustParseAddrPort("10.0.12.12:1")); err == nil || !strings.Contains(err.Error(), "use congestion control nobody") {
		t.Errorf("dial: %v", err)
	}
	if _, err := h.Listen(t.Context(), netip.AddrPortFrom(h.Address, 0)); err == nil || !strings.Contains(err.Error(), "use congestion control nobody") {
		t.Errorf("listen: %v", err)
	}
}

// TestMeter: what is sent is seen at the ports and uplinks on its way, in its direction, and nowhere else.
func TestMeter(t *testing.T) {
	c := build(t, two())
	m, err := c.Meter()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	before, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	sink, err := c.Host("hadoop03").Sink(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	conn, err := c.Host("hadoop01").Dial(t.Context(), sink.At())
	if err != nil {
		t.Fatal(err)
	}
	const sent = 500_000
	if _, err := conn.Write(make([]byte, sent)); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); sink.Received(c.Host("hadoop01").Address) < sent; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("not received after 10 s")
		}
	}
	conn.Close()
	after, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	// Some 350 segments, each of which may be acknowledged on its own, in 66 bytes.
	near := func(what string, bytes, want uint64) {
		if bytes < want || bytes > want+want/4+30_000 {
			t.Errorf("%s: %d bytes, want about %d", what, bytes, want)
		}
	}
	near("hadoop01 up", after.Ports["hadoop01"].Up-before.Ports["hadoop01"].Up, sent)
	near("hadoop01 down", after.Ports["hadoop01"].Down-before.Ports["hadoop01"].Down, 0)
	near("hadoop02 down", after.Ports["hadoop02"].Down-before.Ports["hadoop02"].Down, 0)
	near("hadoop03 down", after.Ports["hadoop03"].Down-before.Ports["hadoop03"].Down, sent)
	near("b12 up", after.Uplinks["b12"].Up-before.Uplinks["b12"].Up, sent)
	near("b12 down", after.Uplinks["b12"].Down-before.Uplinks["b12"].Down, 0)
	near("b13 down", after.Uplinks["b13"].Down-before.Uplinks["b13"].Down, sent)
	near("b13 up", after.Uplinks["b13"].Up-before.Uplinks["b13"].Up, 0)
	if len(after.Ports) != 3 || len(after.Uplinks) != 2 {
		t.Errorf("%d ports and %d uplinks, want 3 and 2", len(after.Ports), len(after.Uplinks))
	}
}

// TestSetWire: a port that is slowed lets through less, one that is sped up again lets through more. A busy machine only makes it
// less, so each is compared with what the other could not be.
func TestSetWire(t *testing.T) {
	topology := two()
	fast, slow := Limit{Rate: 20_000_000}, Limit{Rate: 2_000_000}
	topology.Cabinets[0].Servers[0].Wire = fast
	c := build(t, topology)
	h := c.Host("hadoop01")
	sink, err := c.Host("hadoop02").Sink(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	flow, err := h.Flow(t.Context(), sink.At())
	if err != nil {
		t.Fatal(err)
	}
	defer flow.Close()
	reach := func(bytes uint64) time.Duration {
		start := time.Now()
		for limit := sink.Received(h.Address) + bytes; sink.Received(h.Address) < limit; time.Sleep(time.Millisecond) {
			if time.Since(start) > 20*time.Second {
				t.Fatalf("%d bytes took more than 20 s", bytes)
			}
		}
		return time.Since(start)
	}
	reach(100_000)
	if err := h.SetWire(slow); err != nil {
		t.Fatal(err)
	}
	reach(200_000) // what was on its way, and the burst
	rate := func(bytes uint64) tc.BitRate { return tc.BitRate(float64(bytes*8) / reach(bytes).Seconds()) }
	if got := rate(200_000); got > 3*slow.Rate/2 {
		t.Errorf("slowed to %s: received %s", slow.Rate, got)
	}
	if err := h.SetWire(fast); err != nil {
		t.Fatal(err)
	}
	reach(100_000)
	if got := rate(1_000_000); got < 2*slow.Rate {
		t.Errorf("sped up to %s: received %s", fast.Rate, got)
	}
	if err := c.Host("hadoop02").SetWire(slow); err == nil {
		t.Error("limited a wire that had no limit")
	}
}
