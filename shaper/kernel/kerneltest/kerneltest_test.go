package kerneltest

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var destinations = []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8:9::9"),
	netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8::77")}

// sent is what tc counted on the root qdisc.
func sent(t *testing.T, n *Namespace) (bytes, packets uint64) {
	t.Helper()
	m := regexp.MustCompile(`Sent (\d+) bytes (\d+) pkt`).FindStringSubmatch(n.TC("-s", "qdisc", "show", "dev", Interface, "root"))
	if m == nil {
		t.Fatal("tc shows no counters of the root qdisc")
	}
	bytes, _ = strconv.ParseUint(m[1], 10, 64)
	packets, _ = strconv.ParseUint(m[2], 10, 64)
	return bytes, packets
}

func TestSendIsAllThatIsOnTheWire(t *testing.T) {
	n := New(t)
	n.TC("qdisc", "add", "dev", Interface, "root", "handle", "1:", "pfifo", "limit", "1000")
	var wantBytes, wantPackets uint64
	for _, dst := range destinations {
		n.Send(t, dst, 7)
		wantPackets += 7
		wantBytes += 7 * FrameBytes(dst)
	}
	n.SendFrame(t, EthernetFrame(0x0800, make([]byte, 46)), 3)
	wantPackets, wantBytes = wantPackets+3, wantBytes+180
	if bytes, packets := sent(t, n); bytes != wantBytes || packets != wantPackets {
		t.Errorf("sent %d bytes in %d packets, want %d in %d\n%s", bytes, packets, wantBytes, wantPackets,
			n.Run(t, "ip", "-s", "link", "show", "dev", Interface))
	}
}

func TestPeerAnswersForEveryAddress(t *testing.T) {
	n := New(t)
	for _, dst := range destinations {
		var listener net.Listener
		var err error
		n.Peer().Do(func() {
			listener, err = net.Listen("tcp", net.JoinHostPort(map[bool]string{true: "0.0.0.0", false: "::"}[dst.Is4()], "0"))
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				fmt.Fprintf(conn, "hello from %s", conn.LocalAddr().(*net.TCPAddr).IP)
				conn.Close()
			}
		}()
		var conn net.Conn
		n.Do(func() {
			conn, err = net.DialTCP("tcp", nil, &net.TCPAddr{IP: dst.AsSlice(), Port: listener.Addr().(*net.TCPAddr).Port})
		})
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 100)
		k, _ := conn.Read(text)
		if want := "hello from " + dst.String(); string(text[:k]) != want {
			t.Errorf("got %q, want %q", text[:k], want)
		}
		conn.Close()
		listener.Close()
	}
}

func TestNamespacesAreApart(t *testing.T) {
	n := New(t)
	links := func(n *Namespace) string { return n.Run(t, "ip", "-o", "link") }
	if out := links(n); !strings.Contains(out, Interface) || strings.Contains(out, PeerInterface+":") {
		t.Errorf("node has %s", out)
	}
	if out := links(n.Peer()); !strings.Contains(out, PeerInterface+"@") {
		t.Errorf("peer has %s", out)
	}
	index := func() (i int) {
		n.Do(func() {
			link, err := net.InterfaceByName(Interface)
			if err != nil {
				t.Fatal(err)
			}
			i = link.Index
		})
		return i
	}
	before := index()
	n.Disconnect()
	if out := links(n); strings.Contains(out, Interface) {
		t.Errorf("still there: %s", out)
	}
	n.Connect()
	if index() == before {
		t.Errorf("the new interface has the old index %d", before)
	}
	n.Send(t, destinations[0], 1)
}

func TestRunReportsErrors(t *testing.T) {
	n := New(t)
	if _, err := n.TryTC("qdisc", "del", "dev", Interface, "root"); err == nil || !strings.Contains(err.Error(), "handle of zero") {
		t.Errorf("got %v", err)
	}
	if err := n.TCBatch("qdisc add dev eth1 root handle 1: htb\nclass nonsense\n"); err == nil {
		t.Error("no error from a batch with nonsense")
	}
}

func TestWithARP(t *testing.T) {
	if out := New(t).Run(t, "ip", "link", "show", Interface); !strings.Contains(out, "NOARP") {
		t.Errorf("ARP is on: %s", out)
	}
	n := New(t, WithARP())
	if out := n.Run(t, "ip", "link", "show", Interface); strings.Contains(out, "NOARP") {
		t.Errorf("ARP is off: %s", out)
	}
	n.Send(t, destinations[0], 1)
}
