package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"bulkshaper/shaper/kernel/kerneltest"
)

// exec runs a program in the node's namespace; what it prints is for the script.
func (n *node) exec(ts *testscript.TestScript, name string, args ...string) error {
	return n.execIn(n.Namespace, ts, name, args...)
}

func (n *node) execIn(where *kerneltest.Namespace, ts *testscript.TestScript, name string, args ...string) error {
	var err error
	where.Do(func() { err = ts.Exec(name, args...) })
	return err
}

// program is the command that runs a program as another hand.
func program(name string) func(*node, *testscript.TestScript, []string) error {
	return func(n *node, ts *testscript.TestScript, args []string) error {
		n.acted = time.Now()
		return n.exec(ts, name, args...)
	}
}

func (n *node) cmdNode(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	n.acted = time.Now()
	return n.exec(ts, args[0], args[1:]...)
}

func (n *node) cmdPeer(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	n.acted = time.Now()
	return n.execIn(n.Peer(), ts, args[0], args[1:]...)
}

func (n *node) cmdBatch(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	n.acted = time.Now()
	return n.exec(ts, "tc", "-batch", ts.MkAbs(args[0]))
}

// cmdRepeat does something again and again. Each time may fail: what another hand does may not be possible at the moment.
func (n *node) cmdRepeat(ts *testscript.TestScript, args []string) error {
	if len(args) < 3 {
		return errUsage
	}
	times, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	period, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	what, args := args[2], args[3:]
	tick := time.NewTicker(period)
	defer tick.Stop()
	succeeded := 0
	for range times {
		n.acted = time.Now()
		switch what {
		case "tc", "ip":
			err = n.quietly(what, args...)
		case "batch":
			err = n.quietly("tc", "-force", "-batch", ts.MkAbs(args[0]))
		case "signal":
			err = n.signal(args[0])
		case "put":
			err = n.cmdPut(ts, args)
		default:
			return errUsage
		}
		if err == nil {
			succeeded++
		}
		<-tick.C
	}
	ts.Logf("%d of %d succeeded", succeeded, times)
	if succeeded == 0 {
		return fmt.Errorf("none of %d succeeded: %w", times, err)
	}
	return nil
}

// fight is another hand that goes on and on.
type fight struct {
	stop chan struct{}
	done chan int // how often it succeeded
}

func (n *node) cmdFight(_ *testscript.TestScript, args []string) error {
	if len(args) < 2 || n.fight != nil {
		return errUsage
	}
	period, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	f := &fight{stop: make(chan struct{}), done: make(chan int, 1)}
	n.fight = f
	go func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		succeeded := 0
		for {
			if n.quietly(args[1], args[2:]...) == nil {
				succeeded++
			}
			select {
			case <-f.stop:
				f.done <- succeeded
				return
			case <-tick.C:
			}
		}
	}()
	return nil
}

func (n *node) cmdPeace(ts *testscript.TestScript, args []string) error {
	if n.fight == nil {
		return errUsage
	}
	if succeeded := n.endFight(); succeeded == 0 {
		return errors.New("none succeeded")
	} else {
		ts.Logf("%d succeeded", succeeded)
	}
	return noArguments(args)
}

func (n *node) endFight() int {
	close(n.fight.stop)
	succeeded := <-n.fight.done
	n.fight = nil
	n.acted = time.Now()
	return succeeded
}

func (n *node) quietly(name string, args ...string) error {
	return n.quietlyIn(n.Namespace, name, args...)
}

func (n *node) quietlyIn(where *kerneltest.Namespace, name string, args ...string) error {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = n.dir, &stderr
	var err error
	where.Do(func() { err = cmd.Run() })
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	return nil
}

func (n *node) cmdPut(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	content, err := os.ReadFile(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	return n.put(ts.MkAbs(args[1]), content)
}

// put writes beside the file and renames, as editors do.
func (n *node) put(path string, content []byte) error {
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new~")
	if err := os.WriteFile(beside, content, 0o644); err != nil {
		return err
	}
	n.acted = time.Now()
	return os.Rename(beside, path)
}

func (n *node) cmdReplace(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errUsage
	}
	path := ts.MkAbs(args[0])
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(content), args[1]) {
		return fmt.Errorf("%s has no %q", args[0], args[1])
	}
	return n.put(path, []byte(strings.ReplaceAll(string(content), args[1], args[2])))
}

func (n *node) cmdUnplug(_ *testscript.TestScript, args []string) error {
	n.acted = time.Now()
	n.Disconnect()
	return noArguments(args)
}

func (n *node) cmdPlug(_ *testscript.TestScript, args []string) error {
	n.acted = time.Now()
	n.Connect()
	return noArguments(args)
}

func noArguments(args []string) error {
	if len(args) != 0 {
		return errors.Join(errUsage, fmt.Errorf("%q", args))
	}
	return nil
}
