package shaper

import (
	"context"
	"sync"
	"time"

	"bulkshaper/shaper/tc"
)

const (
	// MeterInterval is how often a running Meter reads the counters: 60 readings are the last five minutes, and cost a processor less than
	// 10 ms a minute.
	MeterInterval = 5 * time.Second
	// meterKept is how many readings are kept: ten minutes.
	meterKept = 120
	// meterLeast is the shortest time between two readings that a rate is made of.
	meterLeast = 500 * time.Millisecond
)

// Meter keeps the last readings of the classes' counters, so that whoever asks what a class sends now has an answer at once. Its methods
// may be called by any number of goroutines.
type Meter struct {
	stats func(context.Context) (tc.Stats, error)

	mu   sync.Mutex
	kept []sample // oldest first
}

// sample is what the classes had sent at a time, in bytes. A gap, where the counters could not be read, has none.
type sample struct {
	at   time.Time
	sent map[tc.Handle]uint64
}

// NewMeter makes a Meter that reads the counters by stats.
func NewMeter(stats func(context.Context) (tc.Stats, error)) *Meter { return &Meter{stats: stats} }

// Run reads the counters every MeterInterval until ctx ends. What cannot be read is a gap: whoever asks for the status is told why.
func (m *Meter) Run(ctx context.Context) {
	tick := time.NewTicker(MeterInterval)
	defer tick.Stop()
	for {
		stats, err := m.stats(ctx)
		if err != nil {
			stats = tc.Stats{Time: time.Now()}
		}
		m.Add(stats)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Add keeps a reading, unless the last one was only just before.
func (m *Meter) Add(stats tc.Stats) {
	r := sample{at: stats.Time, sent: make(map[tc.Handle]uint64, len(stats.Classes))}
	for _, c := range stats.Classes {
		r.sent[c.Class.ID] = c.SentBytes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.kept); n > 0 && r.at.Sub(m.kept[n-1].at) < meterLeast {
		return
	}
	if len(m.kept) == meterKept {
		m.kept = append(m.kept[:0], m.kept[1:]...)
	}
	m.kept = append(m.kept, r)
}

// Fill says in s what each class sends now, since the last reading that is not only just before stats, and what looks wrong in what was
// sent since the first.
func (m *Meter) Fill(s *Status, stats tc.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent, over := m.since(stats)
	if text := hint(s, sent, over); text != "" {
		s.Hints = append(s.Hints, text)
	}
	for i := len(m.kept) - 1; i >= 0; i-- {
		before := m.kept[i]
		over := stats.Time.Sub(before.at)
		if over < meterLeast {
			continue
		}
		rates := make(map[string]uint64, len(stats.Classes))
		for _, c := range stats.Classes {
			if was, ok := before.sent[c.Class.ID]; ok && c.SentBytes >= was {
				rates[c.Class.ID.String()] = rateOf(c.SentBytes-was, over)
			}
		}
		for j := range s.Classes {
			if rate, ok := rates[s.Classes[j].ClassID]; ok {
				s.Classes[j].Sending, s.SendingOver = &rate, over.Seconds()
			}
		}
		return
	}
}

// since is what the classes sent since the oldest reading, by classid; without one that says something, all that they ever sent, over a
// time that is not known.
func (m *Meter) since(stats tc.Stats) (sent map[string]uint64, over time.Duration) {
	var before sample
	if len(m.kept) > 0 && stats.Time.Sub(m.kept[0].at) >= meterLeast {
		before = m.kept[0]
		over = stats.Time.Sub(before.at)
	}
	sent = make(map[string]uint64, len(stats.Classes))
	for _, c := range stats.Classes {
		if was := before.sent[c.Class.ID]; c.SentBytes >= was {
			sent[c.Class.ID.String()] = c.SentBytes - was
		}
	}
	return sent, over
}

// rateOf is bytes in a time as bits per second.
func rateOf(bytes uint64, over time.Duration) uint64 {
	return uint64(float64(bytes) * 8 / over.Seconds())
}

// Recent is the answer of /api/v1/rates: what the classes sent of late.
type Recent struct {
	// Times are the ends of the spans, oldest first; each begins where the one before ends.
	Times   []time.Time   `json:"times"`
	Classes []RecentClass `json:"classes"`
}

// RecentClass is what a class sent in each span; nil where it is not known.
type RecentClass struct {
	Name    string    `json:"name"`
	ClassID string    `json:"classid"`
	Rates   []*uint64 `json:"bits_per_second"`
}

// Recent is what the classes sent of late.
func (m *Meter) Recent(classes []ClassInfo) Recent {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := Recent{Times: []time.Time{}, Classes: []RecentClass{}}
	for i := 1; i < len(m.kept); i++ {
		r.Times = append(r.Times, m.kept[i].at)
	}
	for _, c := range classes {
		one := RecentClass{Name: c.Name, ClassID: c.Class.ID.String(), Rates: make([]*uint64, len(r.Times))}
		for i := range r.Times {
			from, to := m.kept[i], m.kept[i+1]
			was, first := from.sent[c.Class.ID]
			is, second := to.sent[c.Class.ID]
			if first && second && is >= was {
				rate := rateOf(is-was, to.at.Sub(from.at))
				one.Rates[i] = &rate
			}
		}
		r.Classes = append(r.Classes, one)
	}
	return r
}
