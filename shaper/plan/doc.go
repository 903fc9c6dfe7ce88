// Package plan turns policy and the facts of the link into the whole wanted state of the interface, as tc values. It is
// pure; it imports inventory, config, policy, tc and u32/layout.
//
// The wanted state is one htb root 1:, a class for each class of the config and one for ARP and neighbour discovery, a qdisc
// of its own below each leaf class, and u32 filters. In layout "list" each prefix length has a pref of its own, the longest
// first: then neither the order of filters in a pref nor their node ids decide what a packet gets, and a filter can be added
// anywhere. In layout "hash" the two families have a pref each, and package u32/layout says in which hash tables the filters stand.
package plan
