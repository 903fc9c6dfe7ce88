package main

import (
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"bulkshaper/shaper/kernel/lab/traffic"
	"bulkshaper/shaper/tc"
)

// Packets made by hand: an IPv4 packet in an IPv4 packet (RFC 2003), from the node to a server, for the server's pod.
const byHandPackets = 50

func (b *podBed) sendByHand(ctx context.Context) error {
	n := b.nodes[podSender]
	run := newPodRun(b.network.name)
	sniffer, err := n.host.Sniff()
	if err != nil {
		return err
	}
	before, err := n.kernel.Stats(ctx)
	for _, server := range podTargets() {
		if err == nil {
			err = n.host.SendFrame(ipipFrame(podServerOf(server).address, netip.MustParseAddr(b.podWithin(server))), byHandPackets)
		}
	}
	var after tc.Stats
	for limit := time.Now().Add(readyLimit); err == nil; { // a class may hold packets back
		if after, err = n.kernel.Stats(ctx); packetsOf(after) >= packetsOf(before)+byHandPackets*uint64(len(podTargets())) || time.Now().After(limit) {
			break
		}
		err = pause(ctx, pollEvery)
	}
	seen, stopped := sniffer.Stop()
	if err != nil {
		return err
	}
	if stopped != nil {
		return stopped
	}
	status, err := n.status(ctx)
	if err != nil {
		return err
	}
	explained, err := b.explain(ctx, addressesOf(seen))
	if err != nil {
		return err
	}
	run.destinations(b, seen, explained, traffic.Sample{}, traffic.Sample{At: 1})
	for i := range run.Destinations {
		run.Destinations[i].Limit = 0 // it is packets that are counted here
	}
	run.classes(status, before, after, seen, explained)
	run.judge(b)
	b.story.report.Runs = append(b.story.report.Runs, run)
	return nil
}

func packetsOf(s tc.Stats) (n uint64) {
	for _, c := range s.Classes {
		if c.Leaf {
			n += c.SentPackets
		}
	}
	return n
}

// ipipFrame is an Ethernet frame that nobody takes, with an outer packet to a server and an inner one to a pod.
func ipipFrame(outer string, inner netip.Addr) []byte {
	const ipip, udp, payload = 4, 17, 100
	header := func(protocol byte, length int, to netip.Addr) []byte {
		h := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 1, 12, 11}
		binary.BigEndian.PutUint16(h[2:], uint16(length))
		return append(h, to.AsSlice()...)
	}
	frame := []byte{2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1, 0x08, 0x00}
	frame = append(frame, header(ipip, 40+payload, netip.MustParseAddr(outer))...)
	frame = append(frame, header(udp, 20+payload, inner)...)
	return append(frame, make([]byte, payload)...)
}
