package policy

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/gaissmai/bart"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// matcher is a match as this node sees it.
type matcher struct {
	config.Match
	node *inventory.Server
	// named are the servers that the match names without any pattern character, also by a unique short name.
	named map[*inventory.Server]bool
	globs []string
	// addresses is nil where any address will do.
	addresses *bart.Lite
}

func newMatcher(m config.Match, inv *inventory.Inventory, node *inventory.Server) *matcher {
	c := &matcher{Match: m, node: node}
	for _, pattern := range m.Server {
		if isGlob(pattern) {
			c.globs = append(c.globs, pattern)
			continue
		}
		if s, ok := inv.Server(pattern); ok {
			if c.named == nil {
				c.named = map[*inventory.Server]bool{}
			}
			c.named[s] = true
		}
	}
	if m.Address != nil {
		c.addresses = &bart.Lite{}
		for _, p := range m.Address {
			c.addresses.Insert(p)
		}
	}
	return c
}

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }

// refused is the key by which s does not match, "" where it does. Without an owner (s is nil) only a match of
// addresses alone does.
func (m *matcher) refused(s *inventory.Server) string {
	switch {
	case s == nil && (m.Address == nil || !m.OnlyAddress()):
		return "owner"
	case s == nil:
		return ""
	case m.Role != nil && !slices.ContainsFunc(m.Role, s.HasRole):
		return "role"
	case m.Cabinet != nil && !slices.ContainsFunc(m.Cabinet, func(c string) bool { return m.inCabinet(s, c) }):
		return "cabinet"
	case m.Datacenter != nil && !slices.ContainsFunc(m.Datacenter, func(d string) bool { return m.inDatacenter(s, d) }):
		return "datacenter"
	case m.Server != nil && !m.isNamed(s):
		return "server"
	}
	return ""
}

func (m *matcher) inCabinet(s *inventory.Server, cabinet string) bool {
	switch cabinet {
	case config.Same:
		return m.node.SameCabinet(s)
	case config.Other:
		return !m.node.SameCabinet(s)
	}
	return s.Cabinet == cabinet
}

func (m *matcher) inDatacenter(s *inventory.Server, datacenter string) bool {
	same := s.Datacenter != "" && s.Datacenter == m.node.Datacenter
	switch datacenter {
	case config.Same:
		return same
	case config.Other:
		return !same
	}
	return s.Datacenter == datacenter
}

func (m *matcher) isNamed(s *inventory.Server) bool {
	if m.named[s] {
		return true
	}
	for _, glob := range m.globs {
		for _, name := range s.Names {
			if ok, err := path.Match(glob, name); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// covers tells whether all of region is in the addresses of the match.
func (m *matcher) covers(region netip.Prefix) bool {
	return m.addresses == nil || m.addresses.LookupPrefix(region)
}

// reason is why a match does not hold for s and the address, "" where it does.
func (m *matcher) reason(s *inventory.Server, a netip.Addr) string {
	switch m.refused(s) {
	case "owner":
		return "no server has the address"
	case "role":
		if len(s.Roles) == 0 {
			return s.Name + " has no role"
		}
		return fmt.Sprintf("role %s, not %s", strings.Join(s.Roles, ", "), strings.Join(m.Role, " or "))
	case "cabinet":
		return fmt.Sprintf("cabinet %s, not %s", cabinetOf(s), words(m.Cabinet, cabinetOf(m.node)))
	case "datacenter":
		return fmt.Sprintf("datacenter %s, not %s", known(s.Datacenter), words(m.Datacenter, known(m.node.Datacenter)))
	case "server":
		return fmt.Sprintf("server %s, not %s", s.Name, strings.Join(m.Server, " or "))
	}
	if !m.covers(netip.PrefixFrom(a, a.BitLen())) {
		return fmt.Sprintf("address not in %s", joinPrefixes(m.Address))
	}
	return ""
}

// words lists the values of a key, same and other with what they are seen from.
func words(values []string, own string) string {
	var list []string
	for _, v := range values {
		switch v {
		case config.Same:
			v = "this node's (" + own + ")"
		case config.Other:
			v = "other than this node's (" + own + ")"
		}
		list = append(list, v)
	}
	return strings.Join(list, " or ")
}

// cabinetOf names a cabinet with its datacenter, since only both together identify it.
func cabinetOf(s *inventory.Server) string {
	if s.Cabinet == "" {
		return "unknown"
	}
	if s.Datacenter == "" {
		return s.Cabinet
	}
	return s.Datacenter + "/" + s.Cabinet
}

func known(name string) string {
	if name == "" {
		return "unknown"
	}
	return name
}

func joinPrefixes(prefixes []netip.Prefix) string {
	var list []string
	for _, p := range prefixes {
		list = append(list, p.String())
	}
	return strings.Join(list, " or ")
}
