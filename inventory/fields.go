package inventory

import "strings"

// DefaultFields is where a server's parts are looked for unless the config says else: the spellings of the example in the
// README, and the usual others.
func DefaultFields() Fields {
	return Fields{
		Name:  []string{"name", "hostname", "host_name", "fqdn"},
		Names: []string{"names", "aliases", "hostnames", "fqdns"},
		Addresses: []string{"ip_address", "ip_addresses", "ip", "ips", "address", "addresses", "ipv4", "ipv6", "ipv4_address",
			"ipv6_address", "interfaces.*.ip", "interfaces.*.ips", "interfaces.*.ip_address", "interfaces.*.ip_addresses",
			"interfaces.*.addresses"},
		Prefixes:   []string{"prefixes", "pod_cidr", "pod_cidrs", "podCIDR", "podCIDRs"},
		Cabinet:    []string{"cabinet", "rack", "location.cabinet", "location.rack"},
		Datacenter: []string{"datacenter", "data_center", "dc", "location.datacenter"},
		Status:     []string{"status", "status.value", "state"},
	}
}

// fieldPaths is Fields made ready, with the defaults in the place of nil.
type fieldPaths struct {
	name, names, addresses, prefixes, cabinet, datacenter, status []fieldPath
	// keys are the keys, in lower case, that any path mentions.
	keys map[string]bool
	// first numbers, from 0, the keys that paths begin with.
	first map[string]int
	// top is where each key, in lower case, would be read at the top of the object.
	top map[string][]topKey
}

// topKey is a key as a path spells it, and the field that it is for.
type topKey struct {
	key, field string
	paths      *[]fieldPath
}

func (f Fields) compile() *fieldPaths {
	d := DefaultFields()
	c := &fieldPaths{keys: make(map[string]bool), first: make(map[string]int), top: make(map[string][]topKey)}
	for _, field := range []struct {
		name            string
		into            *[]fieldPath
		paths, fallback []string
	}{
		{"name", &c.name, f.Name, d.Name},
		{"names", &c.names, f.Names, d.Names},
		{"addresses", &c.addresses, f.Addresses, d.Addresses},
		{"prefixes", &c.prefixes, f.Prefixes, d.Prefixes},
		{"cabinet", &c.cabinet, f.Cabinet, d.Cabinet},
		{"datacenter", &c.datacenter, f.Datacenter, d.Datacenter},
		{"status", &c.status, f.Status, d.Status},
	} {
		paths := field.paths
		if paths == nil {
			paths = field.fallback
		}
		for _, path := range paths {
			parts, plain := splitPath(path)
			if path == "" {
				continue
			}
			*field.into = append(*field.into, c.path(path))
			for i, part := range parts {
				key := strings.ReplaceAll(part, `\`, "")
				folded := strings.ToLower(key)
				c.keys[folded] = true
				if i == 0 && plain && !hasWildcard(part) && !strings.HasPrefix(part, "#") {
					c.top[folded] = append(c.top[folded], topKey{key: key, field: field.name, paths: field.into})
				}
			}
		}
	}
	return c
}

// path compiles one path.
func (c *fieldPaths) path(text string) fieldPath {
	p := compilePath(text)
	if p.first != "" {
		number, known := c.first[p.first]
		if !known {
			number = len(c.first)
			c.first[p.first] = number
		}
		p.number = number
	}
	return p
}

// significant tells where the case of a key matters: at the top, and wherever a path may look.
func (c *fieldPaths) significant(depth int, folded string) bool { return depth == 1 || c.keys[folded] }
