package kernel

import (
	"maps"
	"slices"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// above is what there is to know of the links that send through the link index: the protocols of the VLAN tags that packets may leave with,
// and the bond that it is a port of.
func (c *conn) above(index int) (tags []tc.Protocol, bond string, err error) {
	var links []wire.Link
	d := dumping{port: c.port, seq: c.next(), visit: func(payload []byte) error {
		l, err := wire.ParseLink(payload)
		if l.On != 0 || l.Master != 0 || l.Tag != 0 || l.Kind == openVSwitch || isBond(l) {
			links = append(links, l)
		}
		return err
	}}
	c.out = wire.AppendDumpLinks(c.out[:0], d.seq)
	if err := c.finishDump(&d); err != nil {
		return nil, "", err
	}
	return tagsAbove(links, index), bondOf(links, index), nil
}

func isBond(l wire.Link) bool { return l.Kind == "bond" || l.Kind == "team" }

// bondOf is the name of the bond that a link is a port of.
func bondOf(links []wire.Link, index int) string {
	for _, port := range links {
		if port.Index != index {
			continue
		}
		for _, l := range links {
			if l.Index == port.Master && isBond(l) {
				return l.Name
			}
		}
	}
	return ""
}

const openVSwitch = "openvswitch"

// tagsAbove goes up from a link to those that send through it: what stands on it, and the bridge or bond that it is a port of. VLAN
// devices put a tag on; of tags in tags the outer one counts, so what stands on a VLAN device does not matter.
func tagsAbove(links []wire.Link, index int) []tc.Protocol {
	below, found := map[int]bool{index: true}, map[tc.Protocol]bool{}
	for grown := true; grown; {
		grown = false
		reach := func(index int) {
			if index != 0 && !below[index] {
				below[index], grown = true, true
			}
		}
		for _, l := range links {
			switch {
			case below[l.On] && l.Kind == "vlan":
				found[l.Tag] = true
			case below[l.On] && (l.Kind == "macvlan" || l.Kind == "macvtap"):
				reach(l.Index)
			}
			if below[l.Index] {
				reach(l.Master)
				switch {
				case l.Kind == "bridge" && l.Tag != 0 && l.Index != index:
					found[l.Tag] = true
				case l.Kind == openVSwitch: // what it does with tags is not to be seen here
					found[tc.ProtocolVLAN] = true
				}
			}
		}
	}
	delete(found, 0)
	return slices.Sorted(maps.Keys(found))
}
