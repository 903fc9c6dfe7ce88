package layout

import (
	"cmp"
	"math"
	"slices"
)

const (
	// basePrice is how many comparisons, over all its items, a table must save where there is room for tables.
	basePrice = 16
	// shortList is never worth a table.
	shortList = 5
	// sampleSize is from how many items windows are chosen, where there are more.
	sampleSize = 8192
	// manyItems are divided into at least manyBuckets, if any window does.
	manyItems   = 4096
	manyBuckets = 16
	// maxSpread is how many buckets there may be for each item: more are no use.
	maxSpread = 4
	// candidates is how many windows are looked at closely.
	candidates = 5
	// exact is up to how many items estimates are kept.
	exact = 1024
)

// chooser estimates what items cost in a layout that is not made yet. All costs are comparisons, summed over items.
type chooser struct {
	width int
	price int
	ideal [exact + 2]int // by number of items
}

func newChooser(width, price int) *chooser {
	c := &chooser{width: width, price: price}
	for n := range c.ideal {
		c.ideal[n] = listCost(n)
		if n > shortList {
			// One table and what falls into one bucket by chance, or more of them.
			c.ideal[n] = min(c.ideal[n], price+2*n+n*(n-1)/512, c.divided(n))
		}
	}
	return c
}

// listCost is that of n items in a row.
func listCost(n int) int { return n * (n + 1) / 2 }

// estimate is the cost of n items that any window divides evenly.
func (c *chooser) estimate(n int) int {
	if n < len(c.ideal) {
		return c.ideal[n]
	}
	return c.divided(n)
}

// divided is the estimate of a table that leads to others, with the best number of buckets.
func (c *chooser) divided(n int) int {
	best := math.MaxInt
	for bits := 1; bits <= maxBits; bits++ {
		buckets := 1 << bits
		q, r := n/buckets, n%buckets
		if q < shortList {
			break
		}
		if q+1 >= len(c.ideal) && bits < maxBits {
			continue
		}
		best = min(best, c.price+n+(buckets-r)*c.estimate(q)+r*c.estimate(q+1))
	}
	return best
}

// candidate is a window and an estimate of the cost with it.
type candidate struct {
	window
	cost int
}

// windows are the most promising for items, the best first, some distance apart.
func (c *chooser) windows(items []item, most int) []candidate {
	sample, scale := items, 1
	if len(items) > sampleSize {
		scale = len(items)/sampleSize + 1
		sample = make([]item, 0, len(items)/scale+1)
		for at, step := 0, uint32(1); at < len(items); {
			sample = append(sample, items[at])
			step = step*1664525 + 1013904223 // any fixed sequence without a pattern
			at += 1 + int(step>>8)%(2*scale-1)
		}
	}
	var varying address
	for _, x := range sample {
		varying.hi |= x.hi ^ sample[0].hi
		varying.lo |= x.lo ^ sample[0].lo
	}
	// Estimates of large buckets are too good: that bits tell their items apart as well is not looked at.
	var found []candidate
	if len(items) > manyItems {
		found = c.windowsOf(sample, scale, varying, manyBuckets)
	}
	if len(found) == 0 {
		found = c.windowsOf(sample, scale, varying, 2)
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.start, b.start)) })
	var apart []candidate
	for _, f := range found {
		near := func(a candidate) bool { return max(a.start, f.start)-min(a.start, f.start) < 3 }
		if len(apart) < most && !slices.ContainsFunc(apart, near) {
			apart = append(apart, f)
		}
	}
	return apart
}

// windowsOf is the best window for each start at one of the varying bits.
func (c *chooser) windowsOf(sample []item, scale int, varying address, buckets int) []candidate {
	var found []candidate
	for start := range c.width {
		if varying.bit(start) == 0 {
			continue
		}
		if best, ok := c.windowAt(sample, scale, uint8(start), buckets); ok {
			found = append(found, best)
		}
	}
	return found
}

// windowAt is the best window that begins at start: the one whose buckets promise the least cost, and of which at least so many are
// not empty. sample is one item of scale.
func (c *chooser) windowAt(sample []item, scale int, start uint8, buckets int) (candidate, bool) {
	bits := min(maxBits, wordBits-start%wordBits)
	for bits > 1 && 1<<bits >= maxSpread*len(sample)*scale {
		bits--
	}
	var counts [1 << maxBits]int
	var short [maxBits][]item // too short for the widest window, by what they exceed its start
	inside := 0
	widest := window{start, bits}
	for _, x := range sample {
		switch over := int(x.length) - int(start); {
		case over >= int(bits):
			counts[widest.of(x.address)]++
			inside++
		case over > 0:
			short[over] = append(short[over], x)
		}
	}
	best, ok := candidate{}, false
	for ; bits > 0; bits-- {
		w := window{start, bits}
		if bits < widest.bits {
			for i := range w.divisor() {
				counts[i] = counts[2*i] + counts[2*i+1]
			}
			for _, x := range short[bits] {
				counts[w.of(x.address)]++
				inside++
			}
		}
		if bits > 1 && int(w.divisor()) >= maxSpread*inside*scale {
			continue
		}
		cost, used := c.price+inside*scale, 0
		for _, n := range counts[:w.divisor()] {
			if n > 0 {
				used++
				cost += c.estimate(n * scale)
			}
		}
		if outside := (len(sample) - inside) * scale; outside > 0 {
			cost += c.estimate(outside) + 2*outside // they are looked for in the table first
		}
		if used >= buckets && (!ok || cost < best.cost) {
			best, ok = candidate{w, cost}, true
		}
	}
	return best, ok
}
