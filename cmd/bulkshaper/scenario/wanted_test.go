package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// show is all of the interface's traffic control as tc tells it.
func (n *node) show() string {
	cmd := exec.Command("tc", "-force", "-batch", "-")
	cmd.Stdin = strings.NewReader("qdisc show dev eth1\nclass show dev eth1\nfilter show dev eth1 parent 1:\n")
	var out []byte
	n.Do(func() { out, _ = cmd.CombinedOutput() }) // where there is no interface or no root, tc says so
	return string(out)
}

var counters = regexp.MustCompile(`refcnt \d+ |direct_packets_stat \d+|rule hit \d+ success \d+|success \d+`)

var filterLine = regexp.MustCompile(`^filter (?:parent \S+ )?protocol (\S+) pref (\d+) (\S+)`)
var flowid = regexp.MustCompile(`flowid (\S+)`)

// meaning is what tc shows without counters and handles of filters: qdiscs and classes line for line, of filters where what they
// match goes, and how many links to hash tables there are. That these are right is the program's own plan to judge, and packets.
func meaning(shown string) string {
	var lines []string
	var filter, class string
	for line := range strings.Lines(counters.ReplaceAllString(shown, "")) {
		line = strings.Join(strings.Fields(line), " ")
		if m := filterLine.FindStringSubmatch(line); m != nil {
			filter, class = strings.Join(m[1:], " "), ""
			if f := flowid.FindStringSubmatch(line); f != nil {
				class = f[1]
			} else if strings.Contains(line, " link ") {
				lines = append(lines, "filter "+filter+" link")
			}
			continue
		}
		switch {
		case strings.HasPrefix(line, "match ") && class != "":
			lines = append(lines, fmt.Sprintf("filter %s %s -> %s", filter, line, class))
		case strings.HasPrefix(line, "qdisc "), strings.HasPrefix(line, "class "):
			filter, class = "", ""
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (n *node) cmdWanted(_ *testscript.TestScript, args []string) error {
	n.shown = n.show()
	n.wanted = meaning(n.shown)
	if !strings.Contains(n.wanted, "qdisc htb 1: root") || !strings.Contains(n.wanted, "-> 1:") {
		return fmt.Errorf("the interface is not shaped:\n%s", n.shown)
	}
	return noArguments(args)
}

func (n *node) cmdDiffers(_ *testscript.TestScript, args []string) error {
	if meaning(n.show()) == n.wanted {
		return errors.New("tc shows what is wanted")
	}
	return noArguments(args)
}

func (n *node) cmdUntouched(_ *testscript.TestScript, args []string) error {
	strip := func(s string) string { return counters.ReplaceAllString(s, "") }
	if d := difference(strip(n.shown), strip(n.show())); d != "" {
		return fmt.Errorf("tc shows something else:\n%s", d)
	}
	return noArguments(args)
}

func (n *node) cmdRestored(ts *testscript.TestScript, args []string) error {
	limit := patience
	switch {
	case len(args) == 2 && args[0] == "within":
		var err error
		if limit, err = time.ParseDuration(args[1]); err != nil {
			return err
		}
	case len(args) != 0:
		return errUsage
	}
	var seen time.Time
	err := n.await("the kernel as wanted", func() (bool, string) {
		now := meaning(n.show())
		seen = time.Now()
		return now == n.wanted, "\n" + difference(n.wanted, now)
	})
	if err != nil {
		return err
	}
	if err := n.awaitStatus("in_sync", "true"); err != nil {
		return err
	}
	took := seen.Sub(n.acted)
	if logged, ok := n.changedAt(); ok && logged.After(n.acted) {
		took = min(took, logged.Sub(n.acted)+time.Millisecond) // the log has milliseconds
	}
	ts.Logf("after %s", took.Round(time.Millisecond))
	n.took = append(n.took, took)
	if took > limit {
		return fmt.Errorf("it took %s, more than %s", took, limit)
	}
	if err := n.exec(ts, n.program, n.withFlags([]string{"plan", "--exit-code"})...); err != nil {
		return fmt.Errorf("there is still to do: %w", err)
	}
	return nil
}

func (n *node) cmdRepairs(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 || args[0] != "within" || len(n.took) == 0 {
		return errUsage
	}
	limit, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	if longest := slices.Max(n.took); longest > limit {
		return fmt.Errorf("the longest of %v is over %s", n.took, limit)
	}
	return nil
}

// changedAt is the time of the last line about a change in the kernel.
func (n *node) changedAt() (time.Time, bool) {
	lines := n.log.lines()
	for _, line := range slices.Backward(lines) {
		var l struct {
			Time       time.Time
			Operations []string
		}
		if json.Unmarshal([]byte(line), &l) == nil && len(l.Operations) > 0 {
			return l.Time, true
		}
	}
	return time.Time{}, false
}

// difference are the lines that only one of two texts has.
func difference(want, have string) string {
	w, h := strings.Split(want, "\n"), strings.Split(have, "\n")
	var lines []string
	for _, line := range w {
		if !slices.Contains(h, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range h {
		if !slices.Contains(w, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return strings.Join(lines, "\n")
}

// cmdSent sends real packets and finds them in the counters of tc.
func (n *node) cmdSent(_ *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errUsage
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	to, err := netip.ParseAddr(args[1])
	if err != nil {
		return err
	}
	before := n.counted(args[2])
	n.Send(n.t, to, count)
	return n.await("packets in class "+args[2], func() (bool, string) {
		now := n.counted(args[2])
		return now == before+count, fmt.Sprintf("%d of %d", now-before, count)
	})
}

// counted is how many packets a class has sent, by tc.
func (n *node) counted(class string) int {
	text, err := n.TryTC("-s", "class", "show", "dev", "eth1", "classid", class)
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`Sent \d+ bytes (\d+) pkt`).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	k, _ := strconv.Atoi(m[1])
	return k
}
