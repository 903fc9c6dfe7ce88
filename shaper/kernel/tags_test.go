package kernel

import (
	"slices"
	"testing"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

func TestTagsAbove(t *testing.T) {
	const vlan, qinq = tc.ProtocolVLAN, tc.ProtocolQinQ
	for name, c := range map[string]struct {
		links []wire.Link
		want  []tc.Protocol
	}{
		"nothing":          {nil, nil},
		"a VLAN device":    {[]wire.Link{{Index: 2, Kind: "vlan", On: 1, Tag: vlan}}, []tc.Protocol{vlan}},
		"of another one":   {[]wire.Link{{Index: 2, Kind: "vlan", On: 9, Tag: vlan}}, nil},
		"both kinds":       {[]wire.Link{{Index: 2, Kind: "vlan", On: 1, Tag: qinq}, {Index: 3, Kind: "vlan", On: 1, Tag: vlan}}, []tc.Protocol{vlan, qinq}},
		"a tag in a tag":   {[]wire.Link{{Index: 2, Kind: "vlan", On: 1, Tag: qinq}, {Index: 3, Kind: "vlan", On: 2, Tag: vlan}}, []tc.Protocol{qinq}},
		"on a macvlan":     {[]wire.Link{{Index: 3, Kind: "vlan", On: 2, Tag: vlan}, {Index: 2, Kind: "macvlan", On: 1}}, []tc.Protocol{vlan}},
		"on a veth's peer": {[]wire.Link{{Index: 2, Kind: "veth", On: 1}, {Index: 3, Kind: "vlan", On: 2, Tag: vlan}}, nil},
		"on the bond":      {[]wire.Link{{Index: 1, Master: 2}, {Index: 3, Kind: "vlan", On: 2, Tag: vlan}}, []tc.Protocol{vlan}},
		"a plain bridge":   {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "bridge"}}, nil},
		"on that bridge":   {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "bridge"}, {Index: 3, Kind: "vlan", On: 2, Tag: vlan}}, []tc.Protocol{vlan}},
		"VLAN bridge":      {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "bridge", Tag: vlan}}, []tc.Protocol{vlan}},
		"another port":     {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "bridge"}, {Index: 4, Master: 2}, {Index: 3, Kind: "vlan", On: 4, Tag: vlan}}, nil},
		"Open vSwitch":     {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "openvswitch"}}, []tc.Protocol{vlan}},
		"a circle":         {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "bond", Master: 1}}, nil},
		"itself a VLAN":    {[]wire.Link{{Index: 1, Kind: "vlan", On: 7, Tag: vlan}}, nil},
	} {
		if got := tagsAbove(c.links, 1); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestBondOf(t *testing.T) {
	for name, c := range map[string]struct {
		links []wire.Link
		want  string
	}{
		"nothing":      {nil, ""},
		"a bond":       {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "bond", Name: "bond0"}}, "bond0"},
		"a team":       {[]wire.Link{{Index: 2, Kind: "team", Name: "team0"}, {Index: 1, Master: 2}}, "team0"},
		"a bridge":     {[]wire.Link{{Index: 1, Master: 2}, {Index: 2, Kind: "bridge", Name: "br0"}}, ""},
		"another port": {[]wire.Link{{Index: 3, Master: 2}, {Index: 2, Kind: "bond", Name: "bond0"}, {Index: 1}}, ""},
		"the bond":     {[]wire.Link{{Index: 1, Kind: "bond", Name: "bond0"}}, ""},
	} {
		if got := bondOf(c.links, 1); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
