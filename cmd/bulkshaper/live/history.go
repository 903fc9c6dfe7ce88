package live

import (
	"math"
	"time"

	"bulkshaper/shaper"
)

// kept is how long what was sent is remembered.
const kept = 10 * time.Minute

// span is what a class sent in a time.
type span struct {
	from, to time.Time
	rate     float64
}

// history is what the classes sent of late, by classid, oldest first.
type history map[string][]span

// take adds what a daemon has kept from before.
func (h history) take(r shaper.Recent) {
	for _, c := range r.Classes {
		var spans []span
		for i, rate := range c.Rates {
			if rate == nil || i == 0 || i >= len(r.Times) {
				continue // where the first began is not told
			}
			spans = append(spans, span{r.Times[i-1], r.Times[i], float64(*rate)})
		}
		h[c.ClassID] = append(spans, h[c.ClassID]...)
	}
}

// add adds what was sent until s.Time, and forgets what is old.
func (h history) add(s shaper.Status) {
	from := s.Time.Add(-time.Duration(s.SendingOver * float64(time.Second)))
	standing := map[string]bool{}
	for _, c := range s.Classes {
		standing[c.ClassID] = true
		spans := h[c.ClassID]
		if c.Sending != nil && s.SendingOver > 0 {
			spans = append(spans, span{from, s.Time, float64(*c.Sending)})
		}
		for len(spans) > 0 && s.Time.Sub(spans[0].to) > kept {
			spans = spans[1:]
		}
		h[c.ClassID] = spans
	}
	for id := range h {
		if !standing[id] {
			delete(h, id)
		}
	}
}

// line is the last time of a class in so many cells, each the mean of what is known of its part; NaN where nothing is.
func (h history) line(id string, now time.Time, last time.Duration, cells int) []float64 {
	values, known := make([]float64, cells), make([]float64, cells)
	start, cell := now.Add(-last), last.Seconds()/float64(cells)
	for _, s := range h[id] {
		from, to := s.from.Sub(start).Seconds(), s.to.Sub(start).Seconds()
		for i := max(0, int(from/cell)); i < cells && float64(i)*cell < to; i++ {
			over := math.Min(to, float64(i+1)*cell) - math.Max(from, float64(i)*cell)
			if over > 0 {
				values[i], known[i] = values[i]+s.rate*over, known[i]+over
			}
		}
	}
	for i := range values {
		values[i] /= known[i] // 0 by 0 is NaN
	}
	return values
}
