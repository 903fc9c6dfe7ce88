package shaper

import (
	"fmt"
	"slices"
	"testing"

	"bulkshaper/inventory"
)

// TestLoopTellsNewWarningsOnce: a reload's new warnings have a line, those of before none, though an edit moved them to another line of their
// file.
func TestLoopTellsNewWarningsOnce(t *testing.T) {
	run(t, nil, func(b *bench) {
		started := len(b.messages())
		comment := 0
		reload := func(warnings ...inventory.Problem) {
			t.Helper()
			in := benchInput(nil)
			in.Config.Warnings = warnings
			comment++
			in.Config.MaxShrink = float64(comment) / 100 // something that makes it another config
			b.inputs.set(in, nil)
			b.files <- struct{}{}
			b.wait(0)
		}
		odd := func(line int, message string) inventory.Problem {
			return inventory.Problem{File: "config.yaml", Line: line, Column: 3, Message: message}
		}
		told := func(want ...string) {
			t.Helper()
			var got []string
			for _, e := range b.logs.All() {
				if e.Level.String() == "warn" {
					got = append(got, fmt.Sprint(e.ContextMap()["warnings"], e.ContextMap()["first"]))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		told()
		reload(odd(3, "odd"))
		told("1 [config.yaml:3:3: odd]")
		reload(odd(12, "odd"))
		told("1 [config.yaml:3:3: odd]")
		reload(odd(12, "odd"), odd(13, "strange"))
		told("1 [config.yaml:3:3: odd]", "1 [config.yaml:13:3: strange]")
		reload()
		reload(odd(3, "odd"))
		told("1 [config.yaml:3:3: odd]", "1 [config.yaml:13:3: strange]", "1 [config.yaml:3:3: odd]")
		if n := len(b.messages()) - started; n != 5+3 {
			t.Errorf("%d lines of five reloads and three warnings: %q", n, b.messages())
		}
	})
}

// TestStandingWarningsAreToldAtTheStart, as a daemon that was started for them should say so.
func TestStandingWarningsAreToldAtTheStart(t *testing.T) {
	warned := func(b *bench) {
		b.Loop.input.Inventory.Warnings = inventory.Problems{{File: "jsons/a.json", Message: "server a has no cabinet"}}
	}
	run(t, warned, func(b *bench) {
		if lines := b.messages(); len(lines) != 2 || b.logs.FilterMessageSnippet("warned of").Len() != 1 {
			t.Errorf("log: %q", lines)
		}
	})
}
