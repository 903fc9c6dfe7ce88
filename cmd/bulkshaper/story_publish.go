package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bulkshaper/shaper/kernel/lab/traffic"
)

// publish prints what was measured, and writes it where that was asked for.
func (s *story) publish() error {
	if s.options.out != "" {
		if err := s.write(s.options.out); err != nil {
			return err
		}
	}
	if s.options.json {
		return printJSON(s.stdout, s.report)
	}
	_, err := fmt.Fprint(s.stdout, s.table())
	return err
}

// pictureScale is the number of pixels in the PNG for each of the picture's own, so that it is sharp on a fine screen.
const pictureScale = 2

// write puts picture and figures into a folder, which is made if need be.
func (s *story) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	var report bytes.Buffer
	if err := printJSON(&report, s.report); err != nil {
		return err
	}
	picture := s.report.picture(s.series())
	pixels, err := picture.PNG(pictureScale)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"incident.json": report.Bytes(), "incident.svg": picture.SVG(), "incident.png": pixels} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	s.progress("incident.svg, incident.png and incident.json are in %s", folder)
	return nil
}

// table is the story for people.
func (s *story) table() string {
	t := newTable("PHASE", "SERVICES", "LATE: RPC FRESH", "KEPT", "DNS", "DB", "P99", "ADDED", "BULK b12 TO b13", "b13 TO b12", "WITHIN", "UPLINK", "PORT", "CLAIMS")
	for i := range s.report.Phases {
		p := &s.report.Phases[i]
		row := []any{fmt.Sprintf("%d %s", i+1, p.Name), p.state()}
		worst := 0.0
		for j, kind := range storyKinds() {
			if kind.MustLive {
				worst = max(worst, p.Services[j].P99)
			}
			if kind.Name != bulkRPC {
				row = append(row, fmt.Sprintf("%.0f%%", 100*p.Services[j].lateShare()))
			}
		}
		added := "-"
		if v, ok := s.added(p); ok && i > 0 {
			added = milliseconds(v)
		}
		row = append(row, milliseconds(worst), added)
		same := 0.0
		for _, c := range p.Cabinets {
			row = append(row, carried(c.Cross, c.CrossLimit))
			same += c.Same / float64(len(p.Cabinets))
		}
		good := 0
		for _, c := range p.Checks {
			if c.OK {
				good++
			}
		}
		t.row(append(row, carried(same, 0), fmt.Sprintf("%.0f%%", 100*p.busiestUplink()), fmt.Sprintf("%.0f%%", 100*p.fullestPort()),
			fmt.Sprintf("%d of %d", good, len(p.Checks)))...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `%s
Two cabinets, b12 and b13, with %s to the core each and %s to each bulk node; %d processors, Linux %s. The phases were measured for %s.
LATE is the share of requests that missed their deadline: %s. P99 is of the RPC or DNS that is worst off, ADDED what that is more
than in the quiet cluster. BULK is payload, and how much that is of what fits into the rate of the nodes' classes; WITHIN is one copy
within a cabinet. UPLINK and PORT are the busiest uplink and the fullest port of a bulk node, in the fuller direction.
`, t, storyUplink, storyLink, s.report.Machine.Processors, s.report.Machine.Kernel, s.options.live.window, deadlines())
	for i := range s.report.Phases {
		if p := &s.report.Phases[i]; p.FollowSeconds > 0 {
			fmt.Fprintf(&b, "%s: %.1f s until every daemon had followed.\n", p.Name, p.FollowSeconds)
		}
	}
	if s.report.Verdict == verdictPassed {
		b.WriteString("All is as claimed, and nothing is left behind.\n")
	}
	return b.String()
}

// deadlines names those of the services.
func deadlines() string {
	var names []string
	for _, k := range storyKinds() {
		if k.Name != bulkRPC {
			names = append(names, fmt.Sprintf("%s %s", k.Name, k.Deadline))
		}
	}
	return strings.Join(names, "; ")
}

func milliseconds(seconds float64) string {
	if seconds >= traffic.Patience.Seconds() {
		return "no answer"
	}
	return fmt.Sprintf("%.1f ms", 1000*seconds)
}

func carried(got, limit float64) string {
	switch {
	case got == 0:
		return "-"
	case limit == 0:
		return humanRate(got)
	}
	return fmt.Sprintf("%s (%.1f%%)", humanRate(got), 100*got/limit)
}

// state is what the services were.
func (p *storyPhase) state() string {
	switch {
	case !p.Measurable:
		return "not measurable"
	case p.good():
		return string(p.Claim)
	}
	return "NOT " + string(p.Claim)
}
