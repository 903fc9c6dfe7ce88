package diff_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// taggedFrame is a frame with a tag, to a.
func taggedFrame(tag tc.Protocol, a netip.Addr) []byte {
	packet, protocol := u32.Packet(a)
	return kerneltest.EthernetFrame(uint16(tag), append([]byte{0, 100, byte(protocol >> 8), byte(protocol)}, packet...))
}

// TestTaggedRealPackets: frames with a tag of either kind to the edges of random prefixes, and beside them, are counted in the class that
// packets without one get, in both layouts and from one to the other; where no tags are known of, in the default class.
func TestTaggedRealPackets(t *testing.T) {
	n, k := openKernel(t)
	r := rand.New(rand.NewPCG(15, 16))
	for _, step := range []struct {
		layout string
		tags   []tc.Protocol
	}{
		{plan.LayoutHash, nil}, {plan.LayoutHash, plan.Tags()}, {plan.LayoutHash, plan.Tags()}, {plan.LayoutList, plan.Tags()},
		{plan.LayoutHash, plan.Tags()[:1]}, {plan.LayoutList, nil},
	} {
		s := fast()
		s.layout, s.tags = step.layout, step.tags
		var probes []netip.Addr
		for i, p := range randomPrefixes(r, 150) {
			s.destinations = append(s.destinations, fmt.Sprintf("%s c%d", p, 10*(1+i%3)))
			probes = append(probes, around(p)...)
		}
		p := s.plan(t)
		k.apply(t, p)
		for _, tag := range plan.Tags() {
			known := slices.Contains(step.tags, tag)
			want := k.counted()
			var frames [][]byte
			for _, a := range probes {
				frames = append(frames, taggedFrame(tag, a))
				if class := wantedVerdict(p, a); known {
					want[class]++
				} else {
					want[p.Default().Class.ID]++
				}
			}
			n.SendFrames(t, frames...)
			if got := k.counted(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("layout %s, tags %v: %d packets with a tag of %s are in %v, wanted %v", step.layout, step.tags, len(probes), tag, got, want)
			}
		}
	}
	// ARP and neighbour discovery behind a tag.
	s := fast()
	s.tags = plan.Tags()
	p := s.plan(t)
	k.apply(t, p)
	solicitation, _ := u32.Packet(netip.MustParseAddr("ff02::1:ff00:1"))
	solicitation[6], solicitation[7], solicitation[40] = 58, 255, 135
	for _, tag := range plan.Tags() {
		before := k.counted()[id(tc.ControlMinor)]
		n.SendFrame(t, kerneltest.EthernetFrame(uint16(tag), append([]byte{0, 100, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 38)...)), 3)
		n.SendFrame(t, kerneltest.EthernetFrame(uint16(tag), append([]byte{0, 100, 0x86, 0xdd}, solicitation...)), 4)
		if got := k.counted()[id(tc.ControlMinor)] - before; got != 7 {
			t.Errorf("7 packets of ARP and neighbour discovery with a tag of %s: %d in the control class", tag, got)
		}
	}
}
