package layout

import "fmt"

// Cost is what a layout costs a packet, in nodes that it is held against, links included, and the kernel.
type Cost struct {
	Destinations int
	// Mean is over the first addresses of all destinations.
	Mean float64
	// Worst is what no address exceeds, whether it is a destination's or not.
	Worst int
	// Tables is the number of hash tables, without the root; Depth how many links follow each other at most.
	Tables, Depth int
	// Longest is the number of nodes in the longest bucket.
	Longest int
}

// String is the cost in a line.
func (c Cost) String() string {
	return fmt.Sprintf("%d destinations in %d hash tables, %d deep: a packet is compared %.1f times on average and %d times at most",
		c.Destinations, c.Tables, c.Depth, c.Mean, c.Worst)
}

// Cost reckons what t costs.
func (t *Tree) Cost() Cost {
	c := Cost{Tables: t.root.tables()}
	c.Worst = t.root.worst(&c, 0)
	sum := 0
	for _, x := range t.root.items(nil) {
		_, _, n := t.root.lookup(x.address)
		sum += n
		c.Destinations++
	}
	if c.Destinations > 0 {
		c.Mean = float64(sum) / float64(c.Destinations)
	}
	return c
}

// worst is the most that a packet which matches nothing in b is compared. The windows of nested tables may overlap, so that there
// need not be an address that meets the longest bucket of each.
func (b *bucket) worst(c *Cost, depth int) int {
	c.Depth, c.Longest = max(c.Depth, depth), max(c.Longest, len(b.links)+len(b.leaves))
	n := len(b.leaves)
	for _, l := range b.links {
		below := 0
		for i := range l.table.buckets {
			below = max(below, l.table.buckets[i].worst(c, depth+1))
		}
		n += 1 + below
	}
	return n
}
