// Package metrics tells Prometheus and people what the shaper does: a Recorder for what the loop counts, a Collector for what
// the kernel counts, read at each scrape, and the HTTP side, which is read only.
//
// Names and labels are a contract (section 8 of the design): dashboards and alerts of other people rest on them. The golden
// testdata/metrics.golden holds them all.
//
// It imports shaper and shaper/tc, of which it needs the values only, and never the kernel.
package metrics
