package config

import "bulkshaper/inventory"

// fields reads inventory.fields.
func (d *decoder) fields(n *node, f *inventory.Fields) {
	const prefix = "inventory.fields."
	paths := func(key string, into *[]string) field {
		return field{key, func(v *node) {
			var list []string
			for _, item := range d.list(v) {
				text, ok := d.scalar(item, prefix+key)
				if ok && text == "" {
					d.add(item, "name a key of the servers' JSON", "%s%s has an empty path", prefix, key)
				}
				list = append(list, text)
			}
			if len(list) == 0 && v.kind == sequenceNode {
				d.add(v, "leave it out for the default", "%s%s is an empty list", prefix, key)
			}
			*into = list
		}}
	}
	d.mapping(n, prefix, []field{
		paths("name", &f.Name), paths("names", &f.Names), paths("addresses", &f.Addresses), paths("prefixes", &f.Prefixes),
		paths("cabinet", &f.Cabinet), paths("datacenter", &f.Datacenter), paths("status", &f.Status),
	})
}
