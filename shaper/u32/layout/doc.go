// Package layout compiles destinations into hash tables of the u32 classifier, so that the cost of a packet does not grow with
// their number. It is pure; it imports tc and u32.
//
// # Structure
//
// A bucket is a list of nodes that a packet is held against in the order of their ids. The root table of the pref is one bucket.
// A bucket holds links, then leaves. A leaf matches a destination and gives its class. A link matches every packet and leads to a
// table, which looks at a window of at most eight bits anywhere in the destination address; a packet that finds nothing there comes
// back and goes on behind the link. The key of a link is where its window ends, or an outer one, whichever is later: the content
// of its table is destinations at least that long, each of which lies in one bucket. Shorter ones stand behind the link and are the
// fall-back. Of several links in a bucket the one with the greatest key comes first.
//
// So the place of a destination follows from the tables: at each bucket it goes into the first link whose key it is long enough
// for, else it is a leaf of that bucket. And the longest prefix wins: whatever stands behind a link is shorter than what is in it,
// and among leaves a longer one that lies in a shorter one has the lower id.
//
// # Windows
//
// Which bits tell the destinations apart is found out by trying, not given: the octet of the host where networks are full, that of
// the network where each has one server, the subnet and then the interface id of IPv6, and so on for each bucket anew. A table
// must be worth its price, a number of comparisons saved. Where that takes too many tables the price goes up, so that buckets get
// longer and ids never run out.
//
// Neighbouring destinations of one class are not merged into one prefix: a server that moves is one message.
//
// # Stability
//
// Read finds the tables and nodes in a kernel's dump, and Adapt changes as little of them as serves the new destinations. Handles
// of what stays stay.
package layout
