package shaper

import (
	"slices"
	"strings"

	"go.uber.org/zap"
)

// tellWarnings logs the warnings that were not there before: in one line, the first few in words. Those that stay are told once and not with
// every reload; one that went and came again is news.
func (l *Loop) tellWarnings() {
	warnings := l.Snapshot().Warnings
	if slices.Equal(warnings, l.warnedOf) {
		return
	}
	warned := make(map[string]bool, len(warnings))
	var first []string
	fresh := 0
	for _, w := range warnings {
		key := withoutLine(w)
		if !l.warned[key] && !warned[key] {
			if fresh++; fresh <= maxNamed {
				first = append(first, w)
			}
		}
		warned[key] = true
	}
	l.warned, l.warnedOf = warned, warnings
	if fresh > 0 {
		l.Log.Warn("the files are taken, and warned of (`bulkshaper check` tells all)", zap.Int("warnings", fresh), zap.Strings("first", first))
	}
}

// withoutLine is a warning without the line and column of its file: an edit above moves them and makes it no other warning.
func withoutLine(warning string) string {
	place, said, ok := strings.Cut(warning, ": ")
	if !ok {
		return warning
	}
	for range 2 {
		i := strings.LastIndexByte(place, ':')
		if i < 0 || i == len(place)-1 || strings.Trim(place[i+1:], "0123456789") != "" {
			break
		}
		place = place[:i]
	}
	return place + ": " + said
}
