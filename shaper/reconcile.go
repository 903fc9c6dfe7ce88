package shaper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/words"
)

// passTimeout bounds one pass: netlink answers in milliseconds, and a kernel that does not is better met again later.
const passTimeout = 20 * time.Second

// reconcile makes one pass: observe, plan, diff, apply, read back. It publishes what came of it, logs it once, and sets the
// next try where one is needed.
//
// A pass that has begun is not cut off by the end of ctx: it takes milliseconds, and half of a tree would stand until the next start.
func (l *Loop) reconcile(ctx context.Context, cause string) error {
	l.wakePending = false
	if err := ctx.Err(); err != nil {
		return err
	}
	cause = l.because(cause)
	pass, cancel := context.WithTimeout(context.WithoutCancel(ctx), passTimeout)
	defer cancel()

	state, err := l.observe(pass)
	if err != nil {
		return l.unobserved(err)
	}
	l.publish(func(s *Snapshot) {
		s.InterfaceUp, s.InterfaceMissing = state.Link.Up, false
		s.InterfaceGone = s.InterfaceGone || state.Link.Index != l.ownedLink
	})
	l.countHits(state)
	if err := l.plan(state); err != nil && l.desired == nil {
		return l.outOfSync(err)
	}

	l.hits.follow(l.desired.Plan)
	drift := l.settled && state.Link.Index == l.ownedLink
	if l.settled && state.Same(l.converged.State) {
		l.inSync(cause, Outcome{State: state, Changes: l.converged.Changes, Converged: true}, drift) // as it was, and the plan is, too
		return nil
	}
	options := diff.Options{Takeover: l.input.Config.Takeover, Owned: state.Link.Index == l.ownedLink}
	out, err := Converge(pass, l.Kernel, state, l.desired.Plan, options, l.keeper(pass))
	l.record(out, drift)
	if len(out.Results) > 0 {
		l.countHits(out.State)
	}
	if err != nil {
		l.logged(cause, out, drift)
		return l.outOfSync(err)
	}
	l.ownedLink = state.Link.Index
	l.inSync(cause, out, drift)
	return nil
}

// plan makes the wanted state anew when the input or the link's facts changed. Where that fails the old plan stays in force
// and the reason is told.
func (l *Loop) plan(state tc.State) error {
	facts := FactsOf(state)
	if l.planned && sameFacts(l.facts, facts) {
		return l.desiredErr
	}
	desired, err := Desire(l.input, l.Hostname, facts, l.over.list()...)
	if err != nil {
		l.facts, l.desiredErr, l.planned = facts, err, true
		return err
	}
	l.adopt(desired, facts)
	return nil
}

// adopt makes desired what is wanted from now on.
func (l *Loop) adopt(desired *Desired, facts plan.Facts) {
	if l.desired != nil {
		maps.Copy(l.former, classNames(l.desired.Plan))
	}
	l.desired, l.desiredErr, l.planned, l.facts = desired, nil, true, facts
	l.settled = false // what differs now is our own wish, not drift
	l.dropOverrides(desired.Refused)
	l.known.Store(&known{l.input, desired})
	l.publish(func(s *Snapshot) { s.describe(l.input, desired) })
	l.tellWarnings()
}

// keeper holds back the deletion of a class that still has packets to send, for a while.
func (l *Loop) keeper(ctx context.Context) func(tc.Handle) bool {
	var backlog map[tc.Handle]uint64
	return func(id tc.Handle) bool {
		if backlog == nil {
			backlog = map[tc.Handle]uint64{}
			stats, err := l.Kernel.Stats(ctx)
			if err != nil {
				return false
			}
			for _, c := range stats.Classes {
				backlog[c.Class.ID] = c.BacklogPackets
			}
		}
		if backlog[id] == 0 {
			return false
		}
		since, ok := l.draining[id]
		if !ok {
			since = time.Now()
			l.draining[id] = since
		}
		return time.Since(since) < DrainWait
	}
}

// record counts what was done.
func (l *Loop) record(out Outcome, drift bool) {
	if out.Changes == nil || len(out.Results) == 0 {
		return
	}
	l.Recorder.Applied(out.Took)
	repaired := map[string]bool{}
	for _, r := range out.Results {
		if errors.Is(r.Err, tc.ErrNotTried) {
			continue
		}
		l.Recorder.Operation(r.Op, r.Err)
		if ce := l.Log.Check(zap.DebugLevel, "operation"); ce != nil {
			ce.Write(zap.String("op", r.Op.String()), zap.String("why", r.Op.Why), zap.Error(r.Err))
		}
		if r.Err == nil && drift && !r.Op.Barrier {
			l.Recorder.DriftRepaired(r.Op.Object.Type())
			repaired[r.Op.Object.Type()] = true
		}
	}
	// Also where somebody took the root away and left nothing to take down: what waited in its queues is lost all the same.
	if (out.Changes.Rebuild != "" || out.State.Link.Index == l.ownedLink) && slices.ContainsFunc(out.Results, makesRoot) {
		l.Recorder.Rebuilt()
	}
	if len(repaired) > 0 {
		now := time.Now()
		before := l.contention.active(now)
		l.contention.repaired(now)
		l.contention.changed(now, l.desired.Plan, out)
		if t := l.contention.told(now); !before && t != nil {
			l.Log.Warn("contended: somebody keeps changing the shaping, so repairs are spaced out from now on",
				zap.Strings("objects", t.names()), zap.Strings("by", t.By))
			l.remember(Event{Kind: EventContended, Why: "somebody keeps changing the shaping, so repairs are spaced out from now on: " + t.Words(time.Local)})
		}
	}
}

// makesRoot tells whether a root qdisc was set up.
func makesRoot(r tc.Result) bool {
	q, ok := r.Op.Object.(tc.Qdisc)
	return ok && r.Err == nil && r.Op.Verb == tc.Add && q.Parent == tc.Root
}

// inSync publishes and logs a pass that ended as wanted, but for queues that still drain.
func (l *Loop) inSync(cause string, out Outcome, drift bool) {
	l.retry.reset()
	l.logged(cause, out, drift)
	now := time.Now()
	l.settled = len(out.Draining) == 0
	l.converged = Outcome{State: out.State, Changes: &diff.Changes{Foreign: out.Changes.Foreign}}
	if l.settled {
		clear(l.draining)
	} else {
		l.wake(DrainPoll)
	}
	if l.contention.active(now) {
		l.wake(l.contention.ends().Sub(now)) // to tell that it is over when that was said
	}
	was := l.Snapshot()
	reason := ""
	if l.desiredErr != nil {
		reason = "the last plan that could be made is in force: " + l.desiredErr.Error()
	}
	costs := was.Filters
	if len(out.Results) > 0 || !l.ready {
		costs = CostsOf(l.desired.Plan, out.State.Filters)
	}
	l.publish(func(s *Snapshot) {
		s.InSync, s.Reason = reason == "", reason
		s.InterfaceGone = false
		s.contended(l.contention.told(now))
		s.Foreign, s.Filters = out.Changes.Foreign, costs
		if len(out.Results) > 0 && (l.reloadPending || !l.ready) {
			s.LastReload.Operations, s.LastReload.Changed = out.Done(), l.changedBy(out)
			if gone := l.gone(); gone != "" {
				s.LastReload.Changed = slices.Insert(s.LastReload.Changed, 0, "not in the inventory any more: "+gone)
			}
		}
	})
	l.reloadPending = false
	if reason != "" && was.Reason != reason {
		l.Log.Error("no plan can be made any more, the last one stays", zap.String("interface", was.Interface), zap.Error(l.desiredErr))
		l.remember(Event{Kind: EventFailed, Why: "no plan can be made, so the last one is in force", Error: l.desiredErr.Error()})
	}
	switch recovered := l.Snapshot().InSync && !was.InSync; {
	case recovered && out.Done() == 0 && !l.ready:
		l.remember(Event{Kind: EventAdopted, Why: cause, Hitless: true})
		l.Log.Info("shaping that stood is adopted", zap.String("interface", was.Interface), zap.String("node", l.desired.Node.Name), zap.Int("servers", was.Servers))
	case recovered && out.Done() == 0:
		l.remember(Event{Kind: EventRecovered, Why: cause, Hitless: true})
		l.Log.Info("in sync again", zap.String("interface", was.Interface))
	case was.Contended && !l.contention.active(now):
		l.remember(Event{Kind: EventContended, Why: "nobody has changed the shaping for a while", Hitless: true})
		l.Log.Info("no longer contended", zap.String("interface", was.Interface))
	}
	if !l.ready {
		l.ready = true
		l.Notifier.Ready()
	}
	l.tell()
}

// unobserved is the end of a pass that could not read the kernel.
func (l *Loop) unobserved(err error) error {
	if errors.Is(err, tc.ErrNoInterface) {
		l.publish(func(s *Snapshot) { s.InterfaceUp, s.InterfaceMissing, s.InterfaceGone = false, true, true })
		l.ownedLink = 0
	}
	return l.outOfSync(err)
}

// outOfSync publishes why the kernel is not as wanted, logs it when it is news, and sets the next try.
func (l *Loop) outOfSync(err error) error {
	reason := err.Error()
	if was := l.Snapshot(); (was.InSync || was.Reason != reason) && !(l.starting && fatal(err)) {
		l.remember(Event{Kind: EventFailed, Why: "not in sync", Error: reason})
		l.Log.Error("not in sync", zap.String("interface", was.Interface), zap.Error(err))
	}
	l.publish(func(s *Snapshot) {
		s.InSync, s.Reason = false, reason
		s.contended(l.contention.told(time.Now()))
	})
	l.tell()
	if !errors.Is(err, tc.ErrNoInterface) { // an interface that comes sends an event
		l.wake(l.retry.step())
	}
	return err
}

// look publishes whether the kernel is as wanted while a repair has to wait, and changes nothing. It is false where there is no
// reason to wait: the interface is gone, or another one that nobody has taken anything from.
func (l *Loop) look(ctx context.Context) bool {
	pass, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	state, err := l.Kernel.Observe(pass)
	if err != nil || state.Link.Index != l.ownedLink {
		return false
	}
	changes, err := diff.Compute(state, l.desired.Plan, diff.Options{Owned: true})
	if err == nil && len(changes.Ops) == 0 {
		return true
	}
	reason := "somebody keeps changing the shaping, so the repair waits until " + l.contention.until.Format(time.TimeOnly)
	if err != nil {
		reason += ": " + err.Error()
	} else if todo := l.summary(state, changes.Ops); len(todo) > 0 {
		reason += ": " + todo[0]
	}
	l.publish(func(s *Snapshot) {
		s.InSync, s.Reason, s.InterfaceUp = false, reason, state.Link.Up
		s.contended(l.contention.told(time.Now()))
	})
	l.tell()
	return true
}

// tell gives the service manager the state in a line.
func (l *Loop) tell() {
	s := l.Snapshot()
	line := fmt.Sprintf("%s shaped as %s: %d servers, %d classes", s.Interface, s.Node, s.Servers, len(s.Classes))
	switch {
	case !s.InSync:
		line = fmt.Sprintf("%s is not in sync: %s", s.Interface, firstLine(s.Reason))
	case s.Contended:
		line += "; somebody keeps changing it"
	case s.LastReload.Result == ReloadFailure:
		line += "; the files are refused since " + s.LastReload.Time.Format(time.RFC3339)
	case s.OverridesError != "":
		line += "; " + firstLine(s.OverridesError)
	}
	if line != l.told {
		l.told = line
		l.Notifier.Status(line)
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// logged writes one line about a pass that changed something, and about every reload that was taken.
func (l *Loop) logged(cause string, out Outcome, drift bool) {
	if out.Done() == 0 && !l.reloadPending {
		return
	}
	l.rememberPass(cause, out, drift)
	fields := []zap.Field{zap.String("cause", cause), zap.Int("servers", len(l.input.Inventory.Servers))}
	if gone := l.gone(); gone != "" {
		fields = append(fields, zap.String("gone", gone))
	}
	taken := slices.Clone(fields)
	counts := map[string]int{}
	hitless := true
	var named []string
	names := l.names()
	for _, r := range out.Results {
		if r.Err != nil || r.Op.Barrier { // to wait is to change nothing
			continue
		}
		counts[string(r.Op.Verb)+" "+r.Op.Object.Type()]++
		hitless = hitless && r.Op.Hitless
		text := r.Op.String() + " (" + r.Op.Why + ")"
		if name := names[classOf(r.Op.Object)]; name != "" {
			text = name + ": " + text
		}
		named = append(named, text)
	}
	if len(named) > maxNamed {
		named = nil
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			named = append(named, fmt.Sprintf("%s: %d", what, counts[what]))
		}
	}
	fields = append(fields, zap.Strings("operations", named), zap.Bool("hitless", hitless), zap.Duration("took", out.Took))
	if out.Changes != nil && out.Changes.Rebuild != "" {
		fields = append(fields, zap.String("rebuild", out.Changes.Rebuild))
	}
	if out.Changes != nil && out.Changes.Advice != "" {
		fields = append(fields, zap.String("advice", out.Changes.Advice))
	}
	if out.Changes != nil && out.Changes.Takeover != "" {
		fields = append(fields, zap.String("takeover", out.Changes.Takeover))
	}
	switch {
	case out.Done() == 0:
		l.Log.Info("inventory read, nothing to change", taken...)
	case drift:
		l.Log.Warn("repaired what somebody else changed", fields...)
	case out.Changes != nil && out.Changes.Advice != "":
		l.Log.Warn("shaping changed", fields...)
	default:
		l.Log.Info("shaping changed", fields...)
	}
}

// changedBy is what a pass did, in words; of more than a few objects of a kind how many.
func (l *Loop) changedBy(out Outcome) []string {
	var ops []tc.Op
	for _, r := range out.Results {
		if r.Err == nil && !r.Op.Barrier {
			ops = append(ops, r.Op)
		}
	}
	return l.summary(out.Before, ops)
}

// summary is ops in words; of more than a few objects of a kind how many.
func (l *Loop) summary(have tc.State, ops []tc.Op) []string {
	if len(ops) > maxTold {
		return []string{fmt.Sprintf("%d operations", len(ops))}
	}
	var lines []string
	for _, line := range words.NamesOf(l.desired.Plan, have).Former(l.former).Summary(ops, maxNamed) {
		lines = append(lines, line.String())
	}
	return lines
}

// maxTold bounds the work of telling what a pass did: beyond, only the number is told.
const maxTold = 20_000

// maxNamed is how many operations a line of the log names; of more it gives the numbers.
const maxNamed = 5
