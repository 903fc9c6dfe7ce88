package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// daemonFigures are those of running daemons: edits, scrapes, idleness, memory.
func (r *runner) daemonFigures(ctx context.Context) {
	few, some, many := countOf(r.few), countOf(r.some), countOf(r.many)
	rows := map[string]figure{
		"edit-some":      {Name: "rename to kernel, " + some + " servers", Unit: "ms", Limit: 50, Note: "debounce 0"},
		"edit-many":      {Name: "rename to kernel, " + many + " servers", Unit: "ms", Limit: 250, Note: "debounce 0"},
		"scrape":         {Name: "a scrape at " + many + " destinations", Unit: "ms", Against: few, Limit: 1.2},
		"scrape-filters": {Name: "  lists of filters that scrapes read", Unit: "", Against: "", Note: "lists of classes read meanwhile: one a scrape"},
		"idle-some":      {Name: "processor time of a minute, " + some + " servers", Unit: "s", Limit: 0.1},
		"idle-many":      {Name: "processor time of a minute, " + many + " servers", Unit: "s", Limit: 0.5},
		"memory-some":    {Name: "resident memory, " + some + " servers", Unit: "MiB", Limit: 64},
		"memory-many":    {Name: "resident memory, " + many + " servers", Unit: "MiB", Limit: 256},
	}
	order := []string{"edit-some", "edit-many", "scrape", "scrape-filters", "idle-some", "idle-many", "memory-some", "memory-many"}
	report := func(id string, f figure) {
		f.ID = id
		r.report(f)
		delete(rows, id)
	}
	fail := func(err error) {
		for _, id := range order {
			if f, left := rows[id]; left {
				report(id, f.fail(err))
			}
		}
	}
	daemons := map[int]*daemon{}
	for _, n := range []int{r.few, r.some, r.many} {
		d, err := r.startDaemon(ctx, n)
		if err != nil {
			fail(fmt.Errorf("%s servers: %w", countOf(n), err))
			break
		}
		defer d.stop()
		daemons[n] = d
	}
	if len(rows) == 0 {
		return
	}
	sized := []struct {
		suffix string
		*daemon
	}{{"-some", daemons[r.some]}, {"-many", daemons[r.many]}}
	for _, d := range sized {
		id := "edit" + d.suffix
		values, err := d.edits(ctx, r.repeats)
		if err != nil {
			report(id, rows[id].fail(err))
			continue
		}
		report(id, rows[id].measured(values...))
	}
	if p, err := r.scrapes(ctx, daemons[r.many], daemons[r.few]); err != nil {
		report("scrape", rows["scrape"].fail(err))
	} else {
		report("scrape", rows["scrape"].compared(p))
	}
	if v, err := r.scrapedFilters(ctx, daemons[r.many]); err != nil {
		report("scrape-filters", rows["scrape-filters"].fail(err))
	} else {
		report("scrape-filters", rows["scrape-filters"].none(v))
	}
	idle, err := r.idleTimes(ctx, []*daemon{daemons[r.some], daemons[r.many]})
	if err != nil {
		fail(err)
		return
	}
	for i, d := range sized {
		id := "idle" + d.suffix
		f := rows[id]
		f.Note = fmt.Sprintf("%d s with two read-backs and a rescan, as a minute has", r.idle)
		report(id, f.measured(idle[i]))
	}
	for _, d := range sized {
		id := "memory" + d.suffix
		resident, err := d.memory("VmRSS")
		peak, err2 := d.memory("VmHWM")
		if err != nil || err2 != nil {
			report(id, rows[id].fail(fmt.Errorf("%w %w", err, err2)))
			continue
		}
		f := rows[id]
		f.Note = fmt.Sprintf("after edits; at most it was %s", number(peak))
		report(id, f.measured(resident))
	}
}

// edits times edits, the first of which does not count.
func (d *daemon) edits(ctx context.Context, times int) ([]float64, error) {
	var values []float64
	for i := range times + 1 {
		v, err := d.edit(ctx, i)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			values = append(values, v)
		}
	}
	return values, d.settle(ctx)
}

// scrapes times scrapes of both daemons in turn.
func (r *runner) scrapes(ctx context.Context, many, few *daemon) (p pairs, err error) {
	scrape := func(d *daemon) (float64, error) {
		return timed(func() error {
			_, err := d.get(ctx, "/metrics")
			return err
		})
	}
	const perRepeat = 20
	for i := range perRepeat*r.repeats + perRepeat {
		x, err := scrape(many)
		if err != nil {
			return p, err
		}
		y, err := scrape(few)
		if err != nil {
			return p, err
		}
		if i >= perRepeat {
			p.add(x, y)
		}
	}
	return p, nil
}

// scrapedFilters is how many lists of filters the daemon has read for a number of scrapes. A read-back reads them as well, so scrapes
// between which one fell are tried again.
func (r *runner) scrapedFilters(ctx context.Context, d *daemon) (float64, error) {
	const scrapes, tries = 10, 3
	if err := d.settle(ctx); err != nil {
		return 0, err
	}
	least := math.Inf(1)
	for range tries {
		filters, classes, err := d.dumps(ctx)
		if err != nil {
			return 0, err
		}
		var filtersNow, classesNow float64
		for range scrapes {
			if filtersNow, classesNow, err = d.dumps(ctx); err != nil {
				return 0, err
			}
		}
		if classesNow-classes < scrapes/2 { // a reading that is under way is shared
			return 0, fmt.Errorf("%d scrapes read the classes %v times: the counts say nothing", scrapes, classesNow-classes)
		}
		if least = min(least, filtersNow-filters); least == 0 {
			break
		}
	}
	return least, nil
}

// dumps is how many lists of filters and of classes the daemon has read, by its own count.
func (d *daemon) dumps(ctx context.Context) (filters, classes float64, err error) {
	text, err := d.get(ctx, "/metrics")
	if err != nil {
		return 0, 0, err
	}
	value := func(object string) (v float64) {
		_, rest, found := strings.Cut(string(text), fmt.Sprintf("\nbulkshaper_kernel_dumps_total{object=%q} ", object))
		line, _, _ := strings.Cut(rest, "\n")
		if v, err = strconv.ParseFloat(line, 64); !found || err != nil {
			err = fmt.Errorf("no count of the %s lists that were read", object)
		}
		return v
	}
	if filters = value("filter"); err == nil {
		classes = value("class")
	}
	return filters, classes, err
}

// idleTimes is the processor time of each daemon while nothing happens. The rescan that still finds the edits comes before.
func (r *runner) idleTimes(ctx context.Context, daemons []*daemon) ([]float64, error) {
	values := make([]float64, len(daemons))
	if err := r.rest(ctx); err != nil {
		return nil, err
	}
	for i, d := range daemons {
		if err := d.settle(ctx); err != nil {
			return nil, err
		}
		v, err := d.processorTime()
		if err != nil {
			return nil, err
		}
		values[i] = -v
	}
	if err := r.rest(ctx); err != nil {
		return nil, err
	}
	for i, d := range daemons {
		v, err := d.processorTime()
		if err != nil {
			return nil, err
		}
		values[i] += v
	}
	return values, nil
}

// rest lets the time pass that stands for a minute.
func (r *runner) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(r.idle) * time.Second):
		return nil
	}
}

func write(path string, text []byte) error {
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}
