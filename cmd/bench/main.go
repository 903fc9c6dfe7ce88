// Command bench takes the figures that bulkshaper is judged by, each beside its baseline from the same run, and prints them as a
// table. It is not part of what is installed.
//
// Everything happens in network namespaces of its own, so it needs root, and ip and tc of iproute2. Each figure is the
// median of repetitions that alternate with those of its baseline; where the interval that holds the true median spans the limit,
// the row says that the machine was too noisy to be certain. It imports the packages that it measures, and runs programs:
// the installed one, and tc to compare with.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitReached = 0
	exitMissed  = 1 // a figure was missed or could not be taken
	exitUsage   = 2
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	program := flags.String("program", "bin/bulkshaper", "the program to measure")
	output := flags.String("json", "", "also write the figures to this file")
	layout := flags.String("layout", "hash", "the layout of filters")
	only := flags.String("only", "", "only the figures whose group begins so: packet, list, install, messages, daemon, repair, goodput, costs")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if err := check(*program); err != nil {
		fmt.Fprintln(stderr, "bench: "+err.Error())
		return exitUsage
	}
	absolute, err := filepath.Abs(*program)
	if err != nil {
		fmt.Fprintln(stderr, "bench: "+err.Error())
		return exitUsage
	}
	start := time.Now()
	figures, err := take(ctx, options{sizes: fullSizes(), program: absolute, layout: *layout, only: *only, progress: stderr})
	if err == nil {
		err = printTable(stdout, figures, time.Since(start))
	}
	if err == nil && *output != "" {
		err = writeJSON(*output, figures)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench: "+err.Error())
		return exitMissed
	}
	for _, f := range figures {
		if f.Verdict == failed || f.Verdict == missed {
			return exitMissed
		}
	}
	return exitReached
}

// check finds what is missing before anything is measured.
func check(program string) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces with real interfaces need root: run it as root")
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: run `make build`", err)
	}
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: install iproute2", err)
		}
	}
	return nil
}

// options are what a run is made of.
type options struct {
	sizes
	program, layout, only string
	progress              io.Writer
}

// take takes the figures.
func take(ctx context.Context, o options) ([]figure, error) {
	folder, err := os.MkdirTemp("", "bulkshaper-bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(folder)
	var figures []figure
	r := &runner{sizes: o.sizes, layout: o.layout, program: o.program, folder: folder, report: func(f figure) {
		figures = append(figures, f)
		fmt.Fprintf(o.progress, "%s %s: %s %s\n", time.Now().Format(time.TimeOnly), f.ID, number(f.Value), f.Unit)
	}}
	r.run(ctx, o.only)
	return figures, ctx.Err()
}

func printTable(w io.Writer, figures []figure, took time.Duration) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tVALUE\tBASELINE\tRATIO\tTO REACH\t\t95 %\tNOTE")
	for _, f := range figures {
		value, base, ratio, limit, span := "", "", "", "", ""
		taken := f.Verdict != failed && f.Verdict != absent
		if taken {
			value = strings.TrimSpace(number(f.Value) + " " + f.Unit)
			span = number(f.Low) + "-" + number(f.High)
		}
		if f.Against != "" && taken {
			base = strings.TrimSpace(fmt.Sprintf("%s %s (%s)", number(f.Baseline), f.Unit, f.Against))
			ratio = number(f.Ratio)
		}
		if f.Limit != 0 {
			limit = map[bool]string{true: ">= ", false: "<= "}[f.AtLeast] + number(f.Limit)
		}
		note := f.Note
		if f.Noisy {
			note = strings.TrimPrefix(note+"; the machine is too noisy to be certain", "; ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, value, base, ratio, limit, f.Verdict, span, note)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s. 95 %%: the interval that holds the median of the ratio, or of the value where there is no baseline.\n", took.Round(time.Second))
	return err
}

func writeJSON(path string, figures []figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	return write(path, append(text, '\n'))
}
