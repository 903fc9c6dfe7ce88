package hitless

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

const (
	port = 9
	// burst is how many packets are sent between two looks at whether the test wants to count.
	burst = 8
)

// sender sends small packets to the targets in turn, as fast as it can.
type sender struct {
	mu      sync.Mutex // held while packets are sent
	conn    *net.UDPConn
	targets []netip.AddrPort
	sent    []uint64 // since the last take, for each target
	err     error
	ended   bool
	done    sync.WaitGroup
}

// socket is one of the node's, for IPv4 and IPv6.
func (b *bed) socket() *net.UDPConn {
	b.t.Helper()
	var conn *net.UDPConn
	var err error
	b.n.Do(func() { conn, err = net.ListenUDP("udp", nil) })
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

// startSender begins to send; it ends with the test.
func (b *bed) startSender(t *testing.T, targets []netip.Addr) {
	t.Helper()
	s := &sender{sent: make([]uint64, len(targets))}
	for _, a := range targets {
		s.targets = append(s.targets, netip.AddrPortFrom(a, port))
	}
	s.conn = b.socket()
	b.sender, b.before = s, b.read()
	s.done.Go(s.run)
	t.Cleanup(s.end)
}

// end sends no more.
func (s *sender) end() {
	s.pause(func() { s.ended = true })
	s.done.Wait()
}

func (s *sender) run() {
	for i := 0; ; i = (i + burst) % len(s.targets) {
		s.mu.Lock()
		if s.ended {
			s.mu.Unlock()
			return
		}
		for j := range burst {
			s.send((i + j) % len(s.targets))
		}
		s.mu.Unlock()
	}
}

// send sends a packet to target i. The caller holds mu.
func (s *sender) send(i int) {
	if _, err := s.conn.WriteToUDPAddrPort(make([]byte, 18), s.targets[i]); err != nil {
		s.err = err
		return
	}
	s.sent[i]++
}

// pause does f while nothing is sent, and no packet is being classified: the kernel does that within the call that sends.
func (s *sender) pause(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// round sends one packet to each target, during a pause.
func (s *sender) round() {
	for i := range s.targets {
		s.send(i)
	}
}

// take is what was sent since it was last called, during a pause.
func (s *sender) take() []uint64 {
	taken := s.sent
	s.sent = make([]uint64, len(taken))
	return taken
}
