package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
)

// FindNode finds this node in the inventory: by the name in the config, else as the server with an address of the interface,
// else by the host name, in full or short. Prefixes do not count here: what answers for a network is not the node inside it.
//
// The error is inventory.Problems and says what was tried.
func FindNode(cfg *config.Config, inv *inventory.Inventory, linkAddrs []netip.Addr, hostname string) (*inventory.Server, error) {
	if cfg.Node != "" {
		if s, ok := inv.Server(cfg.Node); ok {
			return s, nil
		}
		problems := problem(cfg, nearestServers(inv, cfg.Node, "correct node, or add the server to the inventory"),
			"node %q is not in the inventory", cfg.Node)
		if cfg.NodeByFlag {
			problems[0].File = "--node"
		}
		return nil, problems
	}

	owners, byAddress := ownersOf(inv, linkAddrs)
	switch len(owners) {
	case 0:
	case 1:
		return owners[0], nil
	default:
		var who []string
		for _, s := range owners {
			who = append(who, fmt.Sprintf("%s (%s)", s.Name, byAddress[s]))
		}
		slices.Sort(who)
		return nil, problem(cfg, "say which with node: or --node, or correct the inventory",
			"the addresses of %s belong to several servers: %s", cfg.Interface, strings.Join(who, ", "))
	}

	if s, ok := byHostname(inv, hostname); ok {
		return s, nil
	}
	var tried []string
	for _, a := range linkAddrs {
		tried = append(tried, bare(a).String())
	}
	addresses := "no server has an address of " + cfg.Interface + " (" + strings.Join(tried, ", ") + ")"
	if len(tried) == 0 {
		addresses = cfg.Interface + " has no address"
	}
	return nil, problem(cfg, nearestServers(inv, hostname, "set node: or --node, or add the server to the inventory"),
		"which server this node is cannot be told: %s, and no server has the host name %q", addresses, hostname)
}

// OtherNode warns of a config that names this node and is probably another's, copied: the interface has addresses of other servers and
// none of node. Where the command line names the node there is nothing to warn of: that is how one asks for another.
func OtherNode(cfg *config.Config, inv *inventory.Inventory, node *inventory.Server, linkAddrs []netip.Addr) inventory.Problems {
	if cfg.Node == "" || cfg.NodeByFlag {
		return nil
	}
	owners, byAddress := ownersOf(inv, linkAddrs)
	if len(owners) == 0 || slices.Contains(owners, node) {
		return nil
	}
	return problem(cfg, "correct node, or leave it out: a node finds itself by its addresses; until then its cabinet is taken to be that of "+node.Name,
		"node is %s, and %s has %s, an address of %s", node.Name, cfg.Interface, byAddress[owners[0]], owners[0].Name)
}

// ownersOf are the servers with an address of the interface, in the order of its addresses, and the first address that each has of them.
func ownersOf(inv *inventory.Inventory, linkAddrs []netip.Addr) (owners []*inventory.Server, byAddress map[*inventory.Server]netip.Addr) {
	byAddress = map[*inventory.Server]netip.Addr{}
	for _, a := range linkAddrs {
		a = bare(a)
		for _, s := range inv.Servers {
			if !slices.Contains(s.Addresses, a) {
				continue
			}
			if _, seen := byAddress[s]; !seen {
				owners = append(owners, s)
				byAddress[s] = a
			}
		}
	}
	return owners, byAddress
}

// bare is an address of the interface as the inventory has it.
func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// byHostname finds the server of a host name, which may have a domain where the inventory has none. A server of that short name
// in another domain is not this node.
func byHostname(inv *inventory.Inventory, hostname string) (*inventory.Server, bool) {
	name := inventory.CanonicalName(hostname)
	if name == "" || name == "localhost" || strings.HasPrefix(name, "localhost.") {
		return nil, false
	}
	if s, ok := inv.Server(name); ok {
		return s, true
	}
	short, _, qualified := strings.Cut(name, ".")
	if !qualified {
		return nil, false
	}
	s, ok := inv.Server(short)
	if !ok || slices.ContainsFunc(s.Names, func(n string) bool { return strings.HasPrefix(n, short+".") }) {
		return nil, false
	}
	return s, true
}

// nearestServers is a remedy, with the server that was probably meant by name, or those among which a short name does not decide.
func nearestServers(inv *inventory.Inventory, name, remedy string) string {
	name = inventory.CanonicalName(name)
	var names, sameShort []string
	for _, s := range inv.Servers {
		names = append(names, s.Names...)
		if slices.ContainsFunc(s.Names, func(n string) bool { return strings.HasPrefix(n, name+".") }) {
			sameShort = append(sameShort, s.Name)
		}
	}
	if len(sameShort) > 1 && name != "" {
		return remedy + "; the short name stands for " + strings.Join(sameShort[:min(len(sameShort), 5)], " and ")
	}
	if near := config.Nearest(name, names); near != "" {
		return remedy + "; did you mean " + near + "?"
	}
	return remedy
}

// problem is an error about the config as a whole.
func problem(cfg *config.Config, remedy, format string, args ...any) inventory.Problems {
	return inventory.Problems{{File: cfg.File, Message: fmt.Sprintf(format, args...), Remedy: remedy}}
}
