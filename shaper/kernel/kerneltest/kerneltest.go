// Package kerneltest gives tests a real kernel: a network namespace of their own with a veth pair, traffic that goes
// nowhere else, and the real ip and tc as independent witnesses.
//
// The namespaces are anonymous: they live as long as the file descriptors of the test, so nothing is left behind, also
// not by a test that crashes. It works as root and inside `unshare --map-root-user --net --mount`. A test that is not
// permitted to make a namespace fails and says what to do; it is never skipped. Only tests import this package; it runs
// programs, which the rest of the code never does.
package kerneltest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// Interface is the node's end of the veth pair.
	Interface = "eth1"
	// PeerInterface is the other end, in the namespace that Peer returns.
	PeerInterface = "peer"

	gateway4 = "192.0.2.254"
	gateway6 = "2001:db8:ffff::fe"
)

// Namespace is a network namespace: the node's, which holds Interface, or that of its peer.
type Namespace struct {
	t    testing.TB
	file *os.File
	peer *Namespace
	node bool
	opts options
}

type options struct {
	addresses []netip.Prefix
	arp       bool
}

// Option changes what New makes.
type Option func(*options)

// WithAddresses gives Interface these addresses instead of 192.0.2.1/24 and 2001:db8::1/64. There is no connected route:
// every packet leaves by the default route, so that no ARP or neighbour discovery disturbs exact counts.
func WithAddresses(addresses ...netip.Prefix) Option {
	return func(o *options) { o.addresses = addresses }
}

// WithARP leaves address resolution on. Then the kernel itself may send something now and then: ARP, neighbour
// discovery, multicast listener reports.
func WithARP() Option { return func(o *options) { o.arp = true } }

// New makes two namespaces, the node's with Interface and its peer's with PeerInterface, both up. Every destination is
// routed out of Interface to a gateway with a permanent neighbour entry, and the peer takes packets for every address as
// its own, so that a server that listens there on all addresses answers for the whole world.
func New(t testing.TB, opts ...Option) *Namespace {
	t.Helper()
	o := options{addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}}
	for _, opt := range opts {
		opt(&o)
	}
	n := &Namespace{t: t, file: create(t), node: true, opts: o}
	n.peer = &Namespace{t: t, file: create(t), peer: n, opts: o}
	n.Connect()
	return n
}

// create makes a namespace on a thread of its own, which ends with the goroutine.
func create(t testing.TB) *os.File {
	t.Helper()
	type result struct {
		file *os.File
		err  error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- result{err: fmt.Errorf("unshare network namespace: %w", err)}
			return
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		made <- result{file, err}
	}()
	r := <-made
	if r.err != nil {
		t.Fatalf("%v: run `make test` as root, or: go test -exec 'unshare --map-root-user --net --mount' PACKAGE", r.err)
	}
	t.Cleanup(func() { r.file.Close() })
	return r.file
}

// Connect makes the veth pair, anew if there was one: the interfaces get other indexes.
func (n *Namespace) Connect() {
	n.t.Helper()
	// Without automatic addresses, duplicate detection and multicast reports only what the test sends is on the wire.
	sysctls := map[string]string{
		"ipv6/conf/default/accept_dad": "0", "ipv6/conf/all/accept_dad": "0", "ipv6/conf/default/accept_ra": "0",
		"ipv6/conf/default/router_solicitations": "0", "ipv6/conf/default/addr_gen_mode": "1",
		"ipv4/conf/default/rp_filter": "0", "ipv4/conf/all/rp_filter": "0",
		"ipv4/icmp_ratelimit": "0",
	}
	for key, value := range sysctls {
		n.Sysctl(key, value)
		n.peer.Sysctl(key, value)
	}
	n.peer.ip("link set lo up")
	n.ip("link set lo up",
		fmt.Sprintf("link add %s address 02:00:00:00:00:01 type veth peer name %s address 02:00:00:00:00:02 netns %s",
			Interface, PeerInterface, inheritedNamespace))
	n.up()
}

// up brings both ends up and gives them addresses, neighbours and routes. An interface without ARP joins no multicast
// group of its own (addrconf_join_solict), so nothing is reported by MLD.
func (n *Namespace) up() {
	n.t.Helper()
	peer := []string{"link set " + PeerInterface + " up", "-4 route replace local default dev lo table main", "-6 route replace local default dev lo table main"}
	node := []string{"link set " + Interface + " arp off", "link set " + Interface + " up"}
	for _, p := range n.opts.addresses {
		node = append(node, fmt.Sprintf("addr add %s dev %s nodad noprefixroute", p, Interface))
		host := netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
		peer = append(peer, fmt.Sprintf("route add %s dev %s", host, PeerInterface),
			fmt.Sprintf("neigh replace %s dev %s lladdr 02:00:00:00:00:01 nud permanent", p.Addr(), PeerInterface))
	}
	node = append(node,
		fmt.Sprintf("neigh replace %s dev %s lladdr 02:00:00:00:00:02 nud permanent", gateway4, Interface),
		fmt.Sprintf("neigh replace %s dev %s lladdr 02:00:00:00:00:02 nud permanent", gateway6, Interface),
		fmt.Sprintf("-4 route add default via %s dev %s onlink", gateway4, Interface),
		fmt.Sprintf("-6 route add default via %s dev %s onlink", gateway6, Interface))
	if n.opts.arp {
		node = append(node, "link set "+Interface+" arp on")
	}
	n.peer.ip(peer...)
	n.ip(node...)
}

// Disconnect deletes the veth pair, and with it all that stood on Interface.
func (n *Namespace) Disconnect() {
	n.t.Helper()
	n.Run(n.t, "ip", "link", "delete", Interface)
}

// Peer is the namespace at the other end of the wire.
func (n *Namespace) Peer() *Namespace { return n.peer }

// FD is a descriptor of the namespace, open until the test ends.
func (n *Namespace) FD() int { return int(n.file.Fd()) }

// Do runs f with its thread inside the namespace: sockets that f opens belong to it. Goroutines that f starts do not run
// there. f may end the test by t.Fatal.
func (n *Namespace) Do(f func()) {
	n.t.Helper()
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		n.t.Fatalf("open own namespace: %v", err)
	}
	if err := unix.Setns(n.FD(), unix.CLONE_NEWNET); err != nil {
		home.Close()
		runtime.UnlockOSThread()
		n.t.Fatalf("enter namespace: %v", err)
	}
	defer func() {
		// A thread that cannot go home stays locked, so that Go ends it with its goroutine.
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		home.Close()
	}()
	f()
}

// Sysctl writes a value under /proc/sys/net of the namespace; key is a path as in ipv4/ip_forward.
func (n *Namespace) Sysctl(key, value string) {
	n.t.Helper()
	n.Do(func() {
		if err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0); err != nil {
			n.t.Fatalf("write sysctl: %v", err)
		}
	})
}

// ip runs ip once a line.
func (n *Namespace) ip(lines ...string) {
	n.t.Helper()
	for _, line := range lines {
		n.Run(n.t, "ip", strings.Fields(line)...)
	}
}
