package shaper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bulkshaper/shaper/tc"
)

func counters(at time.Time, sent ...uint64) tc.Stats {
	s := tc.Stats{Time: at}
	for i, b := range sent {
		s.Classes = append(s.Classes, tc.ClassStats{Class: tc.Class{ID: tc.MakeHandle(1, uint16(i+1))}, SentBytes: b})
	}
	return s
}

// TestMeterTellsWhatIsSentNow since the last reading, and nothing of a class that was made again since.
func TestMeterTellsWhatIsSentNow(t *testing.T) {
	t.Parallel()
	start := time.Now()
	m := NewMeter(nil)
	status := func() *Status {
		return &Status{Classes: []ClassStatus{{ClassID: "1:1"}, {ClassID: "1:2"}, {ClassID: "1:9"}}}
	}
	s := status()
	if m.Fill(s, counters(start, 5, 5)); s.SendingOver != 0 || s.Classes[0].Sending != nil {
		t.Errorf("without a reading: %+v", s)
	}
	m.Add(counters(start, 1000, 5000))
	m.Add(counters(start.Add(4*time.Second), 2000, 6000))
	m.Add(counters(start.Add(4*time.Second+meterLeast/2), 9000, 9000)) // too soon to be kept
	s = status()
	m.Fill(s, counters(start.Add(6*time.Second), 3000, 10))
	switch {
	case s.SendingOver != 2, s.Classes[0].Sending == nil || *s.Classes[0].Sending != 4000:
		t.Errorf("%+v over %v s", s.Classes[0], s.SendingOver)
	case s.Classes[1].Sending != nil:
		t.Errorf("a counter that fell: %d", *s.Classes[1].Sending)
	case s.Classes[2].Sending != nil:
		t.Error("a class that does not stand sends")
	}
	s = status()
	if m.Fill(s, counters(start.Add(4*time.Second+meterLeast/2), 3000, 10)); s.SendingOver != 4+meterLeast.Seconds()/2 {
		t.Errorf("a reading just before was taken: over %v s", s.SendingOver)
	}
}

// TestMeterKeepsTheLastMinutes by its own clock; a reading that fails is a gap.
func TestMeterKeepsTheLastMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		m := NewMeter(func(context.Context) (tc.Stats, error) {
			if n++; n == 3 {
				return tc.Stats{}, errors.New("no such interface")
			}
			return counters(time.Now(), uint64(n)*1000), nil
		})
		done := make(chan struct{})
		go func() { m.Run(ctx); close(done) }()
		time.Sleep(4*MeterInterval + time.Second)
		r := m.Recent([]ClassInfo{{Name: "bulk", Class: tc.Class{ID: tc.MakeHandle(1, 1)}}, {Name: "new", Class: tc.Class{ID: tc.MakeHandle(1, 7)}}})
		if len(r.Times) != 4 || len(r.Classes) != 2 || r.Classes[0].Name != "bulk" || r.Classes[0].ClassID != "1:1" {
			t.Fatalf("%+v", r)
		}
		want := []uint64{1600, 0, 0, 1600} // 1000 bytes in 5 s; the two beside the gap are unknown
		for i, v := range r.Classes[0].Rates {
			if gap := i == 1 || i == 2; gap != (v == nil) || v != nil && *v != want[i] {
				t.Errorf("span %d: %v", i, v)
			}
			if r.Classes[1].Rates[i] != nil {
				t.Error("a class that does not stand was counted")
			}
		}
		time.Sleep(3 * meterKept * MeterInterval)
		if r := m.Recent(nil); len(r.Times) != meterKept-1 {
			t.Errorf("%d spans are kept", len(r.Times))
		}
		cancel()
		<-done
	})
}
