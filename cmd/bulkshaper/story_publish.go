package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	t := newTable("PHASE", "SERVICES", "LATE: FRESH", "KEPT", "DNS", "DB", "FROM BULK", "P99", "ADDED", "BULK b12 -> b13", "b13 -> b12", "WITHIN", "UPLINK", "PORT")
	for i := range s.report.Phases {
		p := &s.report.Phases[i]
		row := []any{p.Name, p.state()}
		worst := 0.0
		for j, service := range p.Services {
			row = append(row, fmt.Sprintf("%.0f%%", 100*service.lateShare()))
			if storyKinds()[j].MustLive {
				worst = max(worst, service.P99)
			}
		}
		added, _ := s.added(p)
		row = append(row, fmt.Sprintf("%.1f ms", 1000*worst), fmt.Sprintf("%.1f ms", 1000*added))
		same := 0.0
		for _, c := range p.Cabinets {
			row = append(row, carried(c.Cross, c.CrossLimit))
			same += c.Same / float64(len(p.Cabinets))
		}
		row = append(row, humanRate(same), fmt.Sprintf("%.0f%%", 100*p.busiestUplink()), fmt.Sprintf("%.0f%%", 100*p.fullestPort()))
		t.row(row...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", t)
	return b.String()
}

func carried(got, limit float64) string {
	if limit == 0 {
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
