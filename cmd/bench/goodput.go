package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"bulkshaper/cmd/bench/shapes"
)

// goodputFigures measure what one TCP connection carries: without a qdisc, with HTB and no destination, with HTB and many
// destinations. No class is at its limit.
func (r *runner) goodputFigures(ctx context.Context) {
	s := shapes.All()[0]
	all := figure{ID: "goodput", Name: "TCP goodput, HTB and " + countOf(r.many) + " filters", Unit: "Gbit/s", Against: "no qdisc"}
	share := figure{ID: "goodput-htb", Name: "TCP goodput, HTB alone", Unit: "Gbit/s", Against: "no qdisc", Note: "the share of HTB itself"}
	fail := func(err error) {
		r.report(all.fail(err))
		r.report(share.fail(err))
	}
	var streams [3]*stream
	for i := range streams {
		b, err := newBed(ctx, true)
		if err != nil {
			fail(err)
			return
		}
		defer b.close()
		switch i {
		case 0:
			err = b.tc(ctx, "", "qdisc", "replace", "dev", iface, "root", "noqueue")
		case 1:
			_, _, err = b.shape(ctx, r.layout, s.Servers(0))
		case 2:
			_, _, err = b.shape(ctx, r.layout, s.Servers(r.many))
		}
		if err == nil {
			streams[i], err = b.stream(addresses(s.Destinations(r.many), 1)[0])
		}
		if err != nil {
			fail(err)
			return
		}
		defer streams[i].close()
	}
	var with, alone pairs
	for i := range r.repeats + 1 {
		var rates [3]float64
		for turn := range streams {
			which := (turn + i) % len(streams)
			var err error
			if rates[which], err = streams[which].carry(ctx); err != nil {
				fail(err)
				return
			}
		}
		if i > 0 { // the first round lets the windows grow
			with.add(rates[2], rates[0])
			alone.add(rates[1], rates[0])
		}
	}
	r.report(all.compared(with))
	r.report(share.compared(alone))
}

// stream is a TCP connection over a bed's wire.
type stream struct {
	conn     *net.TCPConn
	listener net.Listener
	received atomic.Uint64
}

// stream connects to an address behind the wire.
func (b *bed) stream(to netip.Addr) (*stream, error) {
	s := &stream{}
	err := enter(b.far, func() (err error) {
		s.listener, err = net.Listen("tcp4", "0.0.0.0:0")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	go func() {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 256<<10)
		for {
			n, err := conn.Read(buffer)
			s.received.Add(uint64(n))
			if err != nil {
				return
			}
		}
	}()
	err = enter(b.near, func() (err error) {
		s.conn, err = net.DialTCP("tcp4", nil, &net.TCPAddr{IP: to.AsSlice(), Port: s.listener.Addr().(*net.TCPAddr).Port})
		return err
	})
	if err != nil {
		s.listener.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return s, nil
}

func (s *stream) close() {
	s.conn.Close()
	s.listener.Close()
}

const carryFor = 400 * time.Millisecond

// carry sends for a while and returns what arrived, in Gbit/s.
func (s *stream) carry(ctx context.Context) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	buffer := make([]byte, 256<<10)
	start, before := time.Now(), s.received.Load()
	if err := s.conn.SetWriteDeadline(start.Add(carryFor)); err != nil {
		return 0, err
	}
	for time.Since(start) < carryFor {
		if _, err := s.conn.Write(buffer); err != nil && !isTimeout(err) {
			return 0, fmt.Errorf("send: %w", err)
		}
	}
	return float64(s.received.Load()-before) * 8 / float64(time.Since(start).Nanoseconds()), nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, io.ErrShortWrite)
}
