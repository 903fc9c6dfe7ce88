package shaper

import (
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
)

// FilterCost is what the hash tables of one protocol cost a packet, in nodes that it is compared with.
type FilterCost struct {
	Protocol     string  `json:"protocol"`
	Destinations int     `json:"destinations"`
	Tables       int     `json:"tables"`
	Depth        int     `json:"depth"`
	Mean         float64 `json:"mean_comparisons"`
	Worst        int     `json:"worst_comparisons"`
}

// CostsOf is the cost of the hash tables that stand; none in layout list, where a packet is compared with every destination in
// turn.
func CostsOf(p *plan.Plan, standing []tc.Filter) []FilterCost {
	if p.Layout != plan.LayoutHash {
		return nil
	}
	var costs []FilterCost
	hashed := p.Hashed()
	for i, c := range p.Costs(standing) {
		if c.Destinations > 0 {
			costs = append(costs, FilterCost{hashed[i].Place.Protocol.String(), c.Destinations, c.Tables, c.Depth, c.Mean, c.Worst})
		}
	}
	return costs
}
