package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"bulkshaper/cmd/bench/shapes"
	"bulkshaper/inventory"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/tc"
)

// The two ends of a bed's wire. What arrives at the far end carries another hardware address and is dropped there at once, unless
// the bed answers.
const (
	iface     = "eth1"
	peerIface = "peer"

	gateway4 = "192.0.2.254"
	gateway6 = "2001:db8:ffff::fe"
	node4    = "192.0.2.1"
	node6    = "2001:db8:ffff::1"

	nodeMAC = "02:00:00:00:00:01"
	peerMAC = "02:00:00:00:00:02"
	noMAC   = "02:00:00:00:00:03"
)

const (
	ownNamespace = "/proc/thread-self/ns/net"
	// peerFile is where a program that a bed runs finds the other namespace.
	peerFile = "/proc/self/fd/3"
)

// bed is a namespace with one interface, wired to another namespace. Everything is routed out of the interface.
type bed struct {
	near, far *os.File
	index     int
}

// newBed makes a bed. The far end takes what is sent only if answers is set; then it has every address for its own.
func newBed(ctx context.Context, answers bool) (_ *bed, err error) {
	b := &bed{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.near, err = newNamespace(); err != nil {
		return nil, err
	}
	if b.far, err = newNamespace(); err != nil {
		return nil, err
	}
	neighbour := noMAC
	if answers {
		neighbour = peerMAC
	}
	quiet := map[string]string{"ipv6/conf/default/accept_dad": "0", "ipv6/conf/all/accept_dad": "0", "ipv6/conf/default/accept_ra": "0",
		"ipv6/conf/default/router_solicitations": "0", "ipv6/conf/default/addr_gen_mode": "1", "ipv4/conf/default/rp_filter": "0",
		"ipv4/conf/all/rp_filter": "0", "ipv4/tcp_no_metrics_save": "1"}
	for _, namespace := range []*os.File{b.far, b.near} {
		if err := sysctl(namespace, quiet); err != nil {
			return nil, err
		}
	}
	ip := func(namespace *os.File, lines ...string) {
		for _, line := range lines {
			if err == nil {
				_, err = b.run(ctx, namespace, "", "ip", strings.Fields(line)...)
			}
		}
	}
	ip(b.far, "link set lo up")
	ip(b.near, "link set lo up",
		fmt.Sprintf("link add %s address %s type veth peer name %s address %s netns %s", iface, nodeMAC, peerIface, peerMAC, peerFile))
	ip(b.far, "link set "+peerIface+" arp off", "link set "+peerIface+" up",
		"-4 route replace local default dev lo table main", "-6 route replace local default dev lo table main",
		fmt.Sprintf("-4 route add %s/32 dev %s", node4, peerIface), fmt.Sprintf("-6 route add %s/128 dev %s", node6, peerIface),
		fmt.Sprintf("neigh replace %s dev %s lladdr %s nud permanent", node4, peerIface, nodeMAC),
		fmt.Sprintf("neigh replace %s dev %s lladdr %s nud permanent", node6, peerIface, nodeMAC))
	ip(b.near, "link set "+iface+" arp off", "link set "+iface+" up",
		fmt.Sprintf("addr add %s/24 dev %s noprefixroute", node4, iface), fmt.Sprintf("addr add %s/64 dev %s nodad noprefixroute", node6, iface),
		fmt.Sprintf("neigh replace %s dev %s lladdr %s nud permanent", gateway4, iface, neighbour),
		fmt.Sprintf("neigh replace %s dev %s lladdr %s nud permanent", gateway6, iface, neighbour),
		fmt.Sprintf("-4 route add default via %s dev %s onlink", gateway4, iface),
		fmt.Sprintf("-6 route add default via %s dev %s onlink", gateway6, iface))
	if err != nil {
		return nil, err
	}
	return b, enter(b.near, func() error {
		link, err := net.InterfaceByName(iface)
		if err == nil {
			b.index = link.Index
		}
		return err
	})
}

// close lets both namespaces go, and the wire with them.
func (b *bed) close() {
	for _, f := range []*os.File{b.near, b.far} {
		if f != nil {
			f.Close()
		}
	}
}

// newNamespace makes an anonymous network namespace on a thread that ends with the goroutine.
func newNamespace() (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- result{err: err}
			return
		}
		file, err := os.Open(ownNamespace)
		made <- result{file, err}
	}()
	r := <-made
	if r.err != nil {
		return nil, fmt.Errorf("make network namespace: %w; run it as root", r.err)
	}
	return r.file, nil
}

// enter runs f with its thread in a namespace: sockets that f opens and programs that it starts belong there.
func enter(namespace *os.File, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(ownNamespace)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own namespace: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace: %w", err)
	}
	defer func() {
		// A thread that cannot go home stays locked, so that Go ends it with its goroutine.
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

func sysctl(namespace *os.File, values map[string]string) error {
	return enter(namespace, func() error {
		for key, value := range values {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0); err != nil {
				return fmt.Errorf("set sysctl: %w", err)
			}
		}
		return nil
	})
}

// command is a program that is started in a namespace of b by start.
func (b *bed) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.ExtraFiles = []*os.File{b.far}
	return cmd
}

// run runs a program in a namespace and returns what it printed.
func (b *bed) run(ctx context.Context, namespace *os.File, stdin, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := b.command(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := enter(namespace, cmd.Run); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// tc runs tc on the near side; stdin is for -batch.
func (b *bed) tc(ctx context.Context, stdin string, args ...string) error {
	_, err := b.run(ctx, b.near, stdin, "tc", args...)
	return err
}

// linkRate is more than any machine can send here, so that no class is ever at its limit.
const linkRate tc.BitRate = 400_000_000_000

// baseConfig is the packaged config for a bed.
func baseConfig(layout string) *config.Config {
	cfg := config.Default()
	cfg.Interface, cfg.LinkRate, cfg.Layout, cfg.Node = iface, linkRate, layout, shapes.Node
	return cfg
}

// desire is what servers mean for a bed's interface.
func desire(layout string, state tc.State, servers []*inventory.Server) (*shaper.Desired, error) {
	in := shaper.Input{Config: baseConfig(layout), Inventory: inventory.New(servers, shapes.Roles())}
	return shaper.Desire(in, shapes.Node, shaper.FactsOf(state))
}

// open is the kernel of b's interface.
func (b *bed) open() (*kernel.Kernel, error) {
	return kernel.Open(kernel.Options{Namespace: int(b.near.Fd()), Interface: iface})
}

// shape brings the interface to what servers mean, and says which messages it took.
func (b *bed) shape(ctx context.Context, layout string, servers []*inventory.Server) (*shaper.Desired, shaper.Outcome, error) {
	k, err := b.open()
	if err != nil {
		return nil, shaper.Outcome{}, err
	}
	defer k.Close()
	state, err := k.Observe(ctx)
	if err != nil {
		return nil, shaper.Outcome{}, err
	}
	desired, err := desire(layout, state, servers)
	if err != nil {
		return nil, shaper.Outcome{}, err
	}
	out, err := shaper.Converge(ctx, k, state, desired.Plan, diff.Options{}, nil)
	if err == nil && !out.Converged {
		err = errors.New("not converged")
	}
	return desired, out, err
}

// stats are the class counters of b's interface.
func (b *bed) stats(ctx context.Context) (tc.Stats, error) {
	k, err := b.open()
	if err != nil {
		return tc.Stats{}, err
	}
	defer k.Close()
	return k.Stats(ctx)
}

// inside picks an address of p: the only one, or one in the middle.
func inside(p netip.Prefix) netip.Addr {
	if p.IsSingleIP() {
		return p.Addr()
	}
	b := p.Addr().AsSlice()
	b[len(b)-1] |= 9
	a, _ := netip.AddrFromSlice(b)
	return a
}
