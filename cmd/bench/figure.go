package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// verdict is what came of a figure.
type verdict string

const (
	reached  verdict = "ok"
	missed   verdict = "NO"
	reported verdict = "-" // there is nothing to reach
	failed   verdict = "FAILED"
	absent   verdict = "absent" // the kernel lacks what is measured
)

// figure is a row of the table. It is judged by its ratio, or where there is no baseline by its value.
type figure struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Value and Baseline are medians.
	Value    float64 `json:"value"`
	Baseline float64 `json:"baseline,omitempty"`
	// Against says what the baseline is of.
	Against string `json:"against,omitempty"`
	// Ratio is the median of the ratios of the repetitions, each with a baseline taken beside it.
	Ratio float64 `json:"ratio,omitempty"`
	// Low and High hold the true median of what is judged with a probability of about 95 %.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Samples is the number of repetitions.
	Samples int `json:"samples"`
	// Limit is what is to be reached, 0 for nothing: at most, or at least.
	Limit   float64 `json:"limit,omitempty"`
	AtLeast bool    `json:"at_least,omitempty"`
	Verdict verdict `json:"verdict"`
	// Noisy says that the machine was too noisy for the verdict to be certain.
	Noisy bool   `json:"noisy,omitempty"`
	Note  string `json:"note,omitempty"`
}

// pairs are repetitions of a measurement, each with that of the baseline taken right before or after it.
type pairs struct{ value, base []float64 }

func (p *pairs) add(value, base float64) {
	p.value, p.base = append(p.value, value), append(p.base, base)
}

// ratios are those of value to baseline.
func (p pairs) ratios() []float64 {
	list := make([]float64, len(p.value))
	for i := range list {
		list[i] = p.value[i] / p.base[i]
	}
	return list
}

// compared judges f by p.
func (f figure) compared(p pairs) figure {
	f.Value, f.Baseline = median(p.value), median(p.base)
	ratios := p.ratios()
	f.Ratio = median(ratios)
	return f.judge(f.Ratio, ratios)
}

// measured judges f by its values alone.
func (f figure) measured(values ...float64) figure {
	f.Value = median(values)
	return f.judge(f.Value, values)
}

// none judges f, of which there must be none at all.
func (f figure) none(v float64) figure {
	f.Value, f.Low, f.High, f.Samples, f.Verdict = v, v, v, 1, reached
	if v != 0 {
		f.Verdict = missed
	}
	return f
}

func (f figure) judge(v float64, samples []float64) figure {
	f.Samples = len(samples)
	f.Low, f.High = interval(samples)
	within := func(v float64) bool {
		if f.AtLeast {
			return v >= f.Limit
		}
		return v <= f.Limit
	}
	switch {
	case f.Limit == 0:
		f.Verdict = reported
		return f
	case within(v):
		f.Verdict = reached
	default:
		f.Verdict = missed
	}
	f.Noisy = within(f.Low) != within(f.High)
	return f
}

// fail is f without a value.
func (f figure) fail(err error) figure {
	f.Verdict, f.Note = failed, err.Error()
	return f
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	switch n := len(sorted); {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return sorted[n/2]
	default:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
}

// interval holds the true median with a probability of about 95 %, whatever the distribution: the order statistics at
// n/2 -+ 0.98 sqrt(n) (Conover, Practical Nonparametric Statistics, 3.2).
func interval(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	half := 0.98 * math.Sqrt(float64(n))
	from := max(0, int(math.Floor(float64(n)/2-half)))
	to := min(n-1, int(math.Ceil(float64(n)/2+half))-1)
	return sorted[from], sorted[max(from, to)]
}

// timed is how long f takes, in milliseconds.
func timed(f func() error) (float64, error) {
	start := time.Now()
	err := f()
	return milliseconds(time.Since(start)), err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// number prints v with three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a) && a < 1e6, a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
