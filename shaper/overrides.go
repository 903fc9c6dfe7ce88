package shaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"bulkshaper/shaper/override"
	"bulkshaper/shaper/runfile"
)

// OverrideStore keeps the overrides that people give. override.Store is the real one.
type OverrideStore interface {
	// Load reads all, also those that have ended.
	Load() ([]override.Override, error)
	// Remove takes out what has ended, or cannot be followed. It does not wait for others who write: the error is runfile.ErrLocked.
	Remove(gone []override.Override) error
}

// overrides is the loop's part in them.
type overrides struct {
	// active are those of this interface that have not ended and were not dropped, with when they end by the monotonic clock.
	active []activeOverride
	// gone have ended or were dropped, and are still to be taken out of the store.
	gone []override.Override
	// unread and unremoved are the last errors of the store.
	unread, unremoved string
}

// activeOverride ends by the wall clock, as was said when it was given; and at the latest when it has lasted as long as was said, so
// that a clock that is set back does not make it last longer.
type activeOverride struct {
	override.Override
	latest time.Time
}

func (a activeOverride) ended(now time.Time) bool { return !a.Active(now) || !now.Before(a.latest) }

// list is what Desire is given.
func (o *overrides) list() (list []override.Override) {
	for _, a := range o.active {
		list = append(list, a.Override)
	}
	return list
}

// readOverrides reads the store and follows what changed there. What cannot be read changes nothing. It gives the reason for a
// pass, "" where none is needed.
func (l *Loop) readOverrides() (why string) {
	if l.Overrides == nil {
		return ""
	}
	stored, err := l.Overrides.Load()
	if err != nil {
		if text := err.Error(); text != l.over.unread {
			l.over.unread = text
			l.publish(func(s *Snapshot) { s.OverridesError = text })
			l.tell()
			l.Log.Error("overrides cannot be read, those in force stay until they end", zap.Error(err))
			l.remember(Event{Kind: EventFailed, Why: "overrides cannot be read", Error: text})
		}
		return ""
	}
	if l.over.unread != "" {
		l.over.unread = ""
		l.publish(func(s *Snapshot) { s.OverridesError = "" })
		l.tell()
	}
	now := time.Now()
	var next []activeOverride
	var words []string
	for _, o := range override.Of(stored, l.input.Config.Interface) {
		is := func(a activeOverride) bool { return a.Same(o) }
		switch i := slices.IndexFunc(l.over.active, is); {
		case i >= 0:
			next = append(next, l.over.active[i])
		case slices.ContainsFunc(l.over.gone, o.Same):
		case !o.Active(now):
			l.Log.Info("override had ended", overrideFields(o)...)
			if !l.remembered(overrideEnded, o) {
				l.rememberOverride(overrideEnded, o, "")
			}
			l.over.gone = append(l.over.gone, o)
		default:
			next = append(next, activeOverride{o, now.Add(min(o.Until.Sub(o.Since), o.Until.Sub(now.Round(0))))})
			if l.remembered("set", o) { // a daemon of before followed it
				l.Log.Info("override stands", overrideFields(o)...)
				words = append(words, "stands "+o.String())
				break
			}
			l.Log.Info("override set", overrideFields(o)...)
			words = append(words, "set "+l.rememberOverride("set", o, ""))
		}
	}
	for _, a := range l.over.active {
		if !slices.ContainsFunc(next, func(b activeOverride) bool { return a.Same(b.Override) }) {
			replaced := slices.ContainsFunc(next, func(b activeOverride) bool { return a.Class == b.Class })
			if !replaced {
				l.Log.Info("override cleared", overrideFields(a.Override)...)
				words = append(words, "cleared "+l.rememberOverride("cleared", a.Override, ""))
			} else {
				words = append(words, "replaced "+a.String())
			}
		}
	}
	// What somebody else has taken out needs no more remembering.
	l.over.gone = slices.DeleteFunc(l.over.gone, func(g override.Override) bool { return !slices.ContainsFunc(stored, g.Same) })
	l.over.active = next
	if len(words) == 0 {
		return ""
	}
	l.planned, l.settled = false, false
	return "override " + strings.Join(words, ", ")
}

// endOverrides ends those whose time has come, and takes out of the store what is gone. It gives the reason for a pass.
func (l *Loop) endOverrides(now time.Time) (why string) {
	var words []string
	l.over.active = slices.DeleteFunc(l.over.active, func(a activeOverride) bool {
		if !a.ended(now) {
			return false
		}
		l.Log.Info("override ended", overrideFields(a.Override)...)
		words = append(words, "ended: "+l.rememberOverride(overrideEnded, a.Override, ""))
		l.over.gone = append(l.over.gone, a.Override)
		return true
	})
	l.tidyOverrides()
	if len(words) == 0 {
		return ""
	}
	l.planned, l.settled = false, false
	return "override " + strings.Join(words, ", ")
}

// dropOverrides drops what the policy does not allow any longer: the rest of the config and the inventory is worth more.
func (l *Loop) dropOverrides(refused []override.Refused) {
	for _, r := range refused {
		reason := r.Reason.String()
		l.Log.Warn("override dropped, the config does not allow it any longer", append(overrideFields(r.Override), zap.String("reason", reason))...)
		l.rememberOverride(overrideDropped, r.Override, reason)
		l.over.gone = append(l.over.gone, r.Override)
		l.over.active = slices.DeleteFunc(l.over.active, func(a activeOverride) bool { return a.Same(r.Override) })
	}
	l.tidyOverrides()
}

// tidyOverrides takes out of the store what is gone. Where that fails they are remembered, and it is tried again.
func (l *Loop) tidyOverrides() {
	if len(l.over.gone) == 0 {
		return
	}
	err := l.Overrides.Remove(l.over.gone)
	switch {
	case err == nil:
		l.over.gone, l.over.unremoved = nil, ""
	case errors.Is(err, runfile.ErrLocked):
	case err.Error() != l.over.unremoved:
		l.over.unremoved = err.Error()
		l.Log.Warn("overrides that have ended cannot be removed; they have no effect", zap.Error(err))
	}
}

// overridesChanged makes a pass where the overrides give a reason for one.
func (l *Loop) overridesChanged(ctx context.Context, why string) {
	if why != "" {
		_ = l.reconcile(ctx, why) // it has logged and published the error, and set the next try
	}
}

func overrideFields(o override.Override) []zap.Field {
	fields := []zap.Field{zap.String("class", o.Class), zap.Stringer("rate", o.Rate), zap.Time("until", o.Until), zap.String("by", o.By)}
	if !o.Ceil.IsZero() {
		fields = append(fields, zap.Stringer("ceil", o.Ceil))
	}
	if o.Why != "" {
		fields = append(fields, zap.String("why", o.Why))
	}
	return fields
}

// remembered tells whether the history has it already what became of o.
func (l *Loop) remembered(what string, o override.Override) bool {
	story := overrideStory(what, o)
	return slices.ContainsFunc(l.History.Events(), func(e Event) bool { return e.Kind == EventOverride && e.Why == story })
}

// rememberOverride puts into the history what became of o, and gives o in words.
func (l *Loop) rememberOverride(what string, o override.Override, reason string) string {
	l.remember(Event{Kind: EventOverride, Why: overrideStory(what, o), Error: reason})
	return o.String()
}

// What begins a line of the history about an override, and what became of one that went by itself.
const (
	overridePrefix  = "override "
	overrideEnded   = "ended"
	overrideDropped = "dropped"
)

// overrideStory is a line of the history about o.
func overrideStory(what string, o override.Override) string {
	why := fmt.Sprintf(overridePrefix+"%s: %s until %s", what, o, o.Until.Format(time.RFC3339))
	if o.By != "" {
		why += ", by " + o.By
	}
	if o.Why != "" {
		why += fmt.Sprintf(" (%s)", o.Why)
	}
	return why
}

// OverrideStatus is an override in force, for people and metrics.
type OverrideStatus struct {
	Class string `json:"class"`
	// Rate and Ceil are what the class has now, the configured ones what it has when the override ends.
	Rate           uint64    `json:"rate_bits_per_second"`
	Ceil           uint64    `json:"ceil_bits_per_second"`
	ConfiguredRate uint64    `json:"configured_rate_bits_per_second"`
	ConfiguredCeil uint64    `json:"configured_ceil_bits_per_second"`
	Since          time.Time `json:"since"`
	Until          time.Time `json:"until"`
	Why            string    `json:"why"`
	By             string    `json:"by"`
}

// OverridesOf is what the status says of them.
func OverridesOf(inForce []override.InForce) []OverrideStatus {
	list := []OverrideStatus{}
	for _, o := range inForce {
		list = append(list, OverrideStatus{Class: o.Class, Rate: uint64(o.Limits.Rate), Ceil: uint64(o.Limits.Ceil),
			ConfiguredRate: uint64(o.Configured.Rate), ConfiguredCeil: uint64(o.Configured.Ceil),
			Since: o.Since, Until: o.Until, Why: o.Why, By: o.By})
	}
	return list
}
