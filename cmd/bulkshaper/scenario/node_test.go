package scenario

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"bulkshaper/shaper/kernel/kerneltest"
)

// node is what a script works with: a namespace, a folder of files, a daemon.
type node struct {
	*kerneltest.Namespace
	t       testing.TB
	dir     string
	program string
	layout  string

	daemon   *daemon
	notify   *notifySocket
	log      *logFile
	expected map[string]expected // lines of the log, by their pattern
	prober   *prober
	fight    *fight
	port     net.Listener // that a script has taken

	wanted string
	shown  string // by tc, at the time of wanted
	acted  time.Time
	took   []time.Duration
}

// expected is how many lines of the log a script names.
type expected struct {
	count  int
	orMore bool
}

type nodeKey struct{}

func nodeOf(ts *testscript.TestScript) *node { return ts.Value(nodeKey{}).(*node) }

func newNode(t testing.TB, dir, program, layout string) *node {
	return &node{Namespace: kerneltest.New(t), t: t, dir: dir, program: program, layout: layout, log: &logFile{}, expected: map[string]expected{}}
}

// pathOf names a namespace for ip.
func pathOf(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }

func (n *node) runDir() string { return filepath.Join(n.dir, "run") }

// commands are those of the package comment.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*node, *testscript.TestScript, []string) error{
		"daemon": (*node).cmdDaemon, "bulkshaper": (*node).cmdProgram,
		"tc": program("tc"), "ip": program("ip"), "node": (*node).cmdNode, "peer": (*node).cmdPeer, "batch": (*node).cmdBatch,
		"repeat": (*node).cmdRepeat, "fight": (*node).cmdFight, "burst": (*node).cmdBurst, "chaos": (*node).cmdChaos, "speed": (*node).cmdSpeed,
		"interrupt": (*node).cmdInterrupt, "inventory": (*node).cmdInventory, "peace": (*node).cmdPeace, "put": (*node).cmdPut, "replace": (*node).cmdReplace, "unplug": (*node).cmdUnplug, "plug": (*node).cmdPlug,
		"wanted": (*node).cmdWanted, "restored": (*node).cmdRestored, "differs": (*node).cmdDiffers, "untouched": (*node).cmdUntouched,
		"log": (*node).cmdLog, "metric": (*node).cmdMetric, "status": (*node).cmdStatus, "answers": (*node).cmdAnswers,
		"probe": (*node).cmdProbe, "answered": (*node).cmdAnswered, "sent": (*node).cmdSent, "repairs": (*node).cmdRepairs,
	}
	maps.Copy(all, fileCommands())
	maps.Copy(all, serverCommands())
	cmds := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range all {
		cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			switch err := do(nodeOf(ts), ts, args); {
			case err != nil && !neg, err != nil && !errors.As(err, new(*exec.ExitError)):
				ts.Fatalf("%s: %v", name, err)
			case err == nil && neg:
				ts.Fatalf("%s succeeded", name)
			}
		}
	}
	return cmds
}

var errUsage = errors.New("wrong arguments: see the package comment")

// await looks at a condition until it holds; detail says how it is instead.
func (n *node) await(what string, condition func() (ok bool, detail string)) error {
	w := beginWait()
	for {
		ok, detail := condition()
		if ok {
			return nil
		}
		if n.daemon != nil && n.daemon.ended() && !n.daemon.mayEnd {
			return fmt.Errorf("the daemon has ended: %s", n.daemon.cmd.ProcessState)
		}
		if w.looked(); w.waited > patience {
			return fmt.Errorf("waited %s in vain for %s: %s", w, what, detail)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// end is what every script is held to when it is through, or has failed.
func (n *node) end() {
	if n.fight != nil {
		n.endFight()
	}
	if n.prober != nil {
		n.prober.stop()
	}
	if n.daemon != nil && !n.daemon.ended() {
		if n.t.Failed() {
			n.daemon.kill()
		} else if err := n.stop(); err != nil {
			n.t.Errorf("at the end: %v", err)
		}
	}
	n.checkLog()
	if n.t.Failed() {
		n.t.Logf("the daemon's log:\n%s", n.log.text())
		n.t.Logf("tc shows:\n%s", n.show())
	}
}

// checkLog holds the log to what the script said of it.
func (n *node) checkLog() {
	var named []*regexp.Regexp
	for pattern, want := range n.expected {
		re := regexp.MustCompile(pattern)
		named = append(named, re)
		if lines := n.log.matching(re); len(lines) != want.count && !(want.orMore && len(lines) > want.count) {
			n.t.Errorf("in the end %d lines of the log match %q, not %d:\n%s", len(lines), pattern, want.count, strings.Join(lines, "\n"))
		}
	}
	for _, line := range n.log.lines() {
		if strings.HasPrefix(line, "{") && !strings.Contains(line, `"level":"warn"`) && !strings.Contains(line, `"level":"error"`) {
			continue
		}
		known := false
		for _, re := range named {
			known = known || re.MatchString(line)
		}
		if !known {
			n.t.Errorf("the log has a line that the script does not name:\n%s", line)
		}
	}
}
