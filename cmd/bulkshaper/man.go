package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"bulkshaper/cmd/bulkshaper/man"
	"bulkshaper/shaper/config"
)

// manCommand writes the manual pages for those who make packages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages into a folder; for those who make packages",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the folder of the manual pages: %w", err)
			}
			for _, page := range manPages(c.Root(), date) {
				if err := os.WriteFile(filepath.Join(args[0], page.Name), page.Text, 0o644); err != nil {
					return fmt.Errorf("write a manual page: %w", err)
				}
			}
			return nil
		},
	}
}

// sourceDate is the time that SOURCE_DATE_EPOCH says, which makes what is built of a source the same on any day
// (reproducible-builds.org), and now without it.
func sourceDate(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Now(), nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, wrong(fmt.Errorf("SOURCE_DATE_EPOCH %q is no number of seconds: %w", seconds, err))
	}
	return time.Unix(n, 0), nil
}

func manPages(root *cobra.Command, date time.Time) []man.Page {
	done := man.Entry{Word: strconv.Itoa(exitDone), Means: "Done."}
	failed := man.Entry{Word: strconv.Itoa(exitFailed), Means: "It failed; the error is on standard error."}
	mistake := man.Entry{Word: strconv.Itoa(exitWrong), Means: "Usage, config or inventory is wrong; nothing was changed."}
	differs := func(means string) []man.Entry {
		return []man.Entry{done, failed, mistake, {Word: strconv.Itoa(exitDiffers), Means: means}}
	}
	status := map[string][]man.Entry{
		root.Name(): differs("plan --exit-code found changes, or explain found that kernel and inventory disagree."),
		"bulkshaper run": {done, failed, mistake, {Word: strconv.Itoa(exitNoPermission),
			Means: "Under a service manager: the capability CAP_NET_ADMIN is missing, and to start it again is no use."}},
		"bulkshaper plan":    differs("With --exit-code: there are changes."),
		"bulkshaper explain": differs("Kernel and inventory disagree."),
	}
	for _, c := range root.Commands() {
		if _, there := status[c.CommandPath()]; !there {
			status[c.CommandPath()] = []man.Entry{done, failed, mistake}
		}
	}
	o := man.Options{
		Date: date, Version: version(), Status: status,
		Files: []man.Entry{
			{Word: defaultConfig, Means: "The config, where no --config is given."},
			{Word: "/run/bulkshaper", Means: "The daemon's socket, overrides, history, and what an apply that waits for its confirmation would put back. Key run_dir."},
		},
		See: []string{"tc(8)", "tc-htb(8)", "tc-u32(8)"},
	}
	return append(man.Commands(root, o), man.Config(config.Reference(), o))
}
