package layout

import "slices"

// Items share one buffer for a whole build: build may reorder what it is given.

// build makes the bucket of items, without ids. key is the least length of an item here, depth the number of links that lead here.
// With look, windows are tried out before one is chosen.
func (c *chooser) build(items []item, key uint8, depth int, look bool) bucket {
	if len(items) > shortList && depth < maxDepth {
		if w, ok := c.choose(items, key, depth, look); ok {
			return c.divide(items, w, key, depth, look)
		}
	}
	return list(items)
}

// list is a bucket of leaves.
func list(items []item) bucket {
	slices.SortFunc(items, longestFirst)
	b := bucket{leaves: make([]leaf, len(items))}
	for i, x := range items {
		b.leaves[i].item = x
	}
	return b
}

// choose finds the window by which items are divided; false if a list is better.
func (c *chooser) choose(items []item, key uint8, depth int, look bool) (window, bool) {
	most := 1
	if look && len(items) > 64 {
		most = candidates
	}
	found := c.windows(items, most)
	if len(found) == 0 {
		return window{}, false
	}
	if len(found) == 1 {
		return found[0].window, found[0].cost < listCost(len(items))
	}
	// Estimates are low rather than high: once one is over what a trial gave, the rest need none.
	best := candidate{cost: listCost(len(items))}
	for _, f := range found {
		if f.cost >= best.cost {
			break
		}
		if cost := c.tryOut(items, f.window, key, depth); cost < best.cost {
			best = candidate{f.window, cost}
		}
	}
	return best.window, best.bits > 0
}

// tried is how many items at most are laid out for a trial.
const tried = 4096

// tryOut estimates the cost of items with w better: two of its buckets are laid out and the others taken to be like them.
func (c *chooser) tryOut(items []item, w window, key uint8, depth int) int {
	in, out := splitByLength(slices.Clone(items), w.end())
	parts := partition(in, w)
	order := make([]int, 0, len(parts))
	cost := c.price + len(in)
	estimated := 0
	for i, p := range parts {
		estimated += c.estimate(len(p))
		if len(p) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(parts[b]) - len(parts[a]) })
	real, ideal := 0, 0
	for _, i := range slices.Compact([]int{0, len(order) / 2}) {
		if i >= len(order) || len(parts[order[i]]) > tried {
			continue
		}
		p := parts[order[i]]
		ideal += c.estimate(len(p))
		b := c.build(p, max(key, w.end()), depth+1, false)
		weight := b.weigh()
		real += weight.cost + c.price*weight.tables
	}
	if ideal > 0 {
		estimated = int(int64(estimated) * int64(real) / int64(ideal))
	}
	return cost + estimated + c.estimate(len(out)) + 2*len(out)
}

// divide makes a table of those items that are long enough, and of the rest what stands behind.
func (c *chooser) divide(items []item, w window, key uint8, depth int, look bool) bucket {
	in, out := splitByLength(items, w.end())
	t := newTable(w)
	inner := max(key, w.end())
	for i, p := range partition(in, w) {
		if len(p) > 0 {
			t.buckets[i] = c.build(p, inner, depth+1, look)
		}
	}
	b := c.build(out, key, depth, look)
	b.links = append([]*link{{key: inner, table: t}}, b.links...)
	return b
}

// splitByLength moves the items of at least length to the front, and keeps the order of both parts.
func splitByLength(items []item, length uint8) (in, out []item) {
	i := slices.IndexFunc(items, func(x item) bool { return x.length < length })
	if i < 0 {
		return items, nil
	}
	var short []item
	for _, x := range items[i:] {
		if x.length < length {
			short = append(short, x)
		} else {
			items[i] = x
			i++
		}
	}
	copy(items[i:], short)
	return items[:i:i], items[i:]
}

// partition sorts items by their bucket and returns those of each. The order within a bucket stays.
func partition(items []item, w window) [][]item {
	counts := make([]int, w.divisor()+1)
	for _, x := range items {
		counts[w.of(x.address)+1]++
	}
	for i := range w.divisor() {
		counts[i+1] += counts[i]
	}
	parts := make([][]item, w.divisor())
	for i := range parts {
		parts[i] = items[counts[i]:counts[i+1]:counts[i+1]]
	}
	sorted := make([]item, len(items))
	for _, x := range items {
		b := w.of(x.address)
		sorted[counts[b]] = x
		counts[b]++
	}
	copy(items, sorted)
	return parts
}

// weight is what a bucket or a table costs.
type weight struct {
	// cost is comparisons summed over items. A packet for an item behind a link is taken to meet an average bucket in its table.
	cost          int
	items, tables int
	// miss is the comparisons of a packet that finds nothing, in 1/64.
	miss int
}

func (b *bucket) weigh() weight {
	var sum weight
	for _, l := range b.links {
		w := l.table.weigh()
		sum.cost += w.cost + w.items + w.items*sum.miss/64
		sum.items += w.items
		sum.tables += w.tables + 1
		sum.miss += 64 + w.miss
	}
	n := len(b.leaves)
	sum.cost += listCost(n) + n*sum.miss/64
	sum.items += n
	sum.miss += 64 * n
	return sum
}

func (t *table) weigh() weight {
	var sum weight
	for i := range t.buckets {
		w := t.buckets[i].weigh()
		sum = weight{sum.cost + w.cost, sum.items + w.items, sum.tables + w.tables, sum.miss + w.miss}
	}
	sum.miss /= len(t.buckets)
	return sum
}
