package tc

import "math"

// tc(8) has microseconds in the middle of its arithmetic: a size becomes whole microseconds and then whole ticks, cut both times
// (tc_calc_xmittime, tc_core_time2tick), and ticks are shown by the same way back (tc_calc_xmitsize). So there are bursts that it
// cannot make, and bursts that it shows smaller than they are. Ours are among those that it can make, for the lines of `plan
// --format tc` to give what apply gives, and are shown as they are written wherever that costs next to nothing.

const (
	ticksPerMicrosecond = ticksPerSecond / 1e6 // 15.625
	// exactTicks are eight microseconds, the shortest time that is whole in both, so that tc cuts nothing off its multiples.
	exactTicks = 125
	// longBurst is 800 us, of which eight microseconds are a hundredth.
	longBurst Ticks = 100 * exactTicks
	// microsecondRate is the rate of a byte a microsecond. Below it not every microsecond is the time of a whole number of bytes.
	microsecondRate BitRate = 8_000_000
)

// BurstTicks is what a burst of b at r is sent as: at least TicksOf(b, r), and such that tc can make and show it. From 800 us up
// that is at most 8 us more; what is shorter ends at the next microsecond, or at the one after if that is what tc shows as b, since
// then b was probably taken from its output. Below 8 Mbit/s it is the time of at most two bytes more. It ends at mostTicks.
func BurstTicks(b Bytes, r BitRate) Ticks {
	exact := TicksOf(b, r)
	most := mostTicks(r)
	switch {
	case exact > most-min(most, exactTicks):
		return min(exact, most)
	case r < microsecondRate:
		for size := b; size <= b+2; size++ {
			if t, ok := ticksByTC(size, r); ok && t >= exact {
				return t
			}
		}
		return exact
	case exact >= longBurst:
		return (exact + exactTicks - 1) / exactTicks * exactTicks
	}
	us := uint32(math.Ceil(float64(exact) / ticksPerMicrosecond))
	if timeToTicks(us) < exact {
		us++
	}
	for _, us := range []uint32{us, us + 1} {
		if t := timeToTicks(us); shownByTC(t, r) == b {
			return t
		}
	}
	return timeToTicks(us)
}

// mostTicks is the longest burst that tc can make at r, of 274 s or, where a byte takes seconds, somewhat less.
func mostTicks(r BitRate) Ticks {
	const us = math.MaxUint32 * 1_000_000 / ticksPerSecond // cut to a whole one
	t, _ := ticksByTC(Bytes(us*float64(r.BytesPerSecond())/1e6), r)
	return t
}

// forTC is the size that makes tc send t at r, and where there is none the size that t is.
func (t Ticks) forTC(r BitRate) Bytes {
	us := math.Ceil(float64(t) / ticksPerMicrosecond)
	near := Bytes(math.Ceil(us * float64(r.BytesPerSecond()) / 1e6))
	own := t.BytesAt(r)
	for _, size := range []Bytes{own, own + 1, near, near + 1} {
		if made, ok := ticksByTC(size, r); ok && made == t {
			return size
		}
	}
	return own
}

// ticksByTC is tc_calc_xmittime, in the same floating point. It is false where tc's 32 bits overflow.
func ticksByTC(b Bytes, r BitRate) (Ticks, bool) {
	us := 1e6 * (float64(b) / float64(r.BytesPerSecond()))
	if !(us*ticksPerMicrosecond < math.MaxUint32) {
		return 0, false
	}
	return timeToTicks(uint32(us)), true
}

// timeToTicks is tc_core_time2tick.
func timeToTicks(us uint32) Ticks { return Ticks(float64(us) * ticksPerMicrosecond) }

// shownByTC is tc_calc_xmitsize: the burst that tc shows for t.
func shownByTC(t Ticks, r BitRate) Bytes {
	us := uint32(float64(t) / ticksPerMicrosecond)
	return Bytes(float64(r.BytesPerSecond()) * float64(us) / 1e6)
}
