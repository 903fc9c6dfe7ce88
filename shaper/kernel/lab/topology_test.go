package lab

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"bulkshaper/shaper/tc"
)

func two() Topology {
	server := func(name, address string) Server {
		return Server{Name: name, Address: netip.MustParseAddr(address)}
	}
	return Topology{Cabinets: []Cabinet{
		{Name: "b12", Prefix: netip.MustParsePrefix("10.0.12.0/24"), Servers: []Server{server("hadoop01", "10.0.12.11"), server("hadoop02", "10.0.12.12")}},
		{Name: "b13", Prefix: netip.MustParsePrefix("10.0.13.0/24"), Servers: []Server{server("hadoop03", "10.0.13.11")}},
	}}
}

func TestTopologiesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Topology)
		want   string
	}{
		"no name":               {func(t *Topology) { t.Cabinets[0].Servers[0].Name = "" }, `name ""`},
		"a long name":           {func(t *Topology) { t.Cabinets[0].Servers[0].Name = "hadoop0123456789" }, "1 to 15 characters"},
		"two of one name":       {func(t *Topology) { t.Cabinets[1].Servers[0].Name = "hadoop01" }, `name "hadoop01"`},
		"the bridge's name":     {func(t *Topology) { t.Cabinets[1].Name = "br0" }, `name "br0"`},
		"host bits":             {func(t *Topology) { t.Cabinets[0].Prefix = netip.MustParsePrefix("10.0.12.1/24") }, "host bits"},
		"no prefix":             {func(t *Topology) { t.Cabinets[0].Prefix = netip.Prefix{} }, "no IPv4 prefix"},
		"prefixes overlap":      {func(t *Topology) { t.Cabinets[1].Prefix = netip.MustParsePrefix("10.0.0.0/16") }, "overlap"},
		"outside the prefix":    {func(t *Topology) { t.Cabinets[0].Servers[0].Address = netip.MustParseAddr("10.0.13.9") }, "not in 10.0.12.0/24"},
		"the gateway's":         {func(t *Topology) { t.Cabinets[0].Servers[0].Address = netip.MustParseAddr("10.0.12.1") }, "that of the gateway"},
		"two of one address":    {func(t *Topology) { t.Cabinets[0].Servers[1].Address = netip.MustParseAddr("10.0.12.11") }, "that of hadoop01"},
		"more than there is of": {func(t *Topology) { t.Cabinets = make([]Cabinet, 256) }, "at most 255"},
	} {
		topology := two()
		c.change(&topology)
		cluster, err := Build(topology)
		if err == nil {
			cluster.Close()
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
	if err := two().check(); err != nil {
		t.Error(err)
	}
}

func TestLimitDefaults(t *testing.T) {
	for _, c := range []struct {
		limit        Limit
		burst, queue tc.Bytes
	}{
		{Limit{Rate: 8_000_000}, 10_000, 10_000 + 50_000},
		{Limit{Rate: 1_000_000_000}, 125_000, 125_000 + 6_250_000},
		{Limit{Rate: 100_000_000, Burst: 3000, Queue: 100 * time.Millisecond}, 3000, 3000 + 1_250_000},
	} {
		if b, q := c.limit.burst(), c.limit.queueBytes(); b != c.burst || q != c.queue {
			t.Errorf("%+v: burst %d, queue %d, want %d, %d", c.limit, b, q, c.burst, c.queue)
		}
	}
}
