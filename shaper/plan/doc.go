// Package plan turns policy and the facts of the link into the whole wanted state of the interface, as tc values. It is
// pure; it imports inventory, config, policy, tc and u32/layout.
//
// The wanted state is one htb root 1:, a class for each class of the config and one for ARP and neighbour discovery, a qdisc
// of its own below each leaf class, and u32 filters. In layout "list" each prefix length has a pref of its own, the longest
// first: then neither the order of filters in a pref nor their node ids decide what a packet gets, and a filter can be added
// anywhere. In layout "hash" the two families have a pref each, and package u32/layout says in which hash tables the filters stand.
//
// Packets that leave with a VLAN tag are of another protocol to the classifier, on all kernels and whoever writes the tag into the frame
// (see tc.Protocol.IsTag), and get the class of their destination by filters of their own. Those are planned where such packets may leave:
// where tc.Link.Tags says so. In layout list they are lists of their own, in layout hash a root table of their own over the same hash tables.
package plan
