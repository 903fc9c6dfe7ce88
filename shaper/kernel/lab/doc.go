// Package lab builds throw-away clusters: cabinets of servers, each in a network namespace of its own, joined by wires and
// uplinks of limited rate and queue to a core that routes between them.
//
//	server eth1 -- phy0 ~~ cabinet's switch ~~ core
//
// eth1 is a macvlan on phy0, one end of the wire, so that what is shaped on eth1 takes the place of nothing of the lab's: the
// lab limits phy0, the switch's port and the uplinks, each with a TBF.
//
// The namespaces are anonymous and live only as long as file descriptors of this process, and processes that it started there
// are killed with it: nothing is left, whatever ends it. The machine's own namespace is never touched, since every wire is
// made inside the lab. It takes CAP_NET_ADMIN and CAP_SYS_ADMIN, those of a user namespace will do (InUserNamespace).
//
// The package may import tc and the netlink libraries. It serves the demo and tests.
package lab
