package kernel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/kerneltest"
	"bulkshaper/shaper/tc"
)

// roleVariable makes the test binary play another part: TestMain looks at it.
const roleVariable = "KERNEL_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "install":
		childInstall()
	case "unprivileged":
		childUnprivileged()
	default:
		os.Exit(m.Run())
	}
}

// child prepares the test binary in another part, inside the namespace.
func child(t *testing.T, n *kerneltest.Namespace, role string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := n.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

func childOps() (*Kernel, tc.Link) {
	k, err := Open(Options{Interface: kerneltest.Interface})
	if err != nil {
		panic(err)
	}
	s, err := k.Observe(context.Background())
	if err != nil {
		panic(err)
	}
	return k, s.Link
}

// childInstall installs and removes the tree until it is killed.
func childInstall() {
	k, link := childOps()
	fmt.Println("ready")
	for {
		for _, r := range k.Apply(context.Background(), link, append(tree(), remove(root()))) {
			if r.Err != nil {
				fmt.Fprintln(os.Stderr, r.Op, r.Err)
				return
			}
		}
	}
}

// Wherever the process is killed, what stands is the kernel's own root, or a tree that the next start knows as ours: with at
// least one class whose leaf has our mark.
func TestKilledWhileInstalling(t *testing.T) {
	n := kerneltest.New(t)
	k := open(t, n)
	bare, ours := 0, 0
	for i := range 40 {
		cmd := child(t, n, "install")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		n.Do(func() { err = cmd.Start() })
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("child: %q, %v", line, err)
		}
		time.Sleep(time.Duration(i*137) * time.Microsecond) // another moment each time
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, out)
		cmd.Wait()
		s := observe(t, k)
		q, ok := s.RootQdisc()
		switch {
		case ok && q.Handle == tc.Unspec:
			bare++
			continue
		case q != root():
			t.Fatalf("root is %+v", q)
		}
		marked := false
		for _, c := range s.Classes {
			marked = marked || c.Leaf == tc.LeafHandle(c.ID.Minor())
		}
		if !marked {
			t.Fatalf("a root of ours without our mark: %+v", s)
		}
		ours++
		mustApply(t, k, remove(root()))
	}
	t.Logf("%d times the kernel's root stood, %d times ours", bare, ours)
	if ours == 0 {
		t.Error("the tree never stood: the test proves nothing")
	}
}

// childUnprivileged runs without CAP_NET_ADMIN and says what Apply does then.
func childUnprivileged() {
	k, link := childOps()
	rs := k.Apply(context.Background(), link, tree())
	fmt.Println(rs[0].Err)
	fmt.Println(errors.Is(rs[0].Err, tc.ErrPermission), errors.Is(rs[1].Err, tc.ErrNotTried), errors.Is(rs[len(rs)-1].Err, tc.ErrNotTried))
	for _, op := range []tc.Op{add(class(0x10, mbit)), change(class(0x10, mbit)), add(leaf(0x10)), add(filter(1, "10.0.0.1/32", 0x10)), remove(root())} {
		rs := k.Apply(context.Background(), link, []tc.Op{op})
		fmt.Println(errors.Is(rs[0].Err, tc.ErrPermission), op)
	}
	if _, err := k.Stats(context.Background()); err != nil {
		fmt.Println("stats:", err)
	}
	if _, err := k.Watch(context.Background()); err != nil {
		fmt.Println("watch:", err)
	}
}

// outputWithout runs a program from a thread whose capability bounding set lacks CAP_NET_ADMIN, so that it has none although
// it runs as root, and inside a user namespace too. The thread ends with its goroutine.
func outputWithout(n *kerneltest.Namespace, cmd *exec.Cmd) ([]byte, error) {
	type result struct {
		out []byte
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_NET_ADMIN, 0, 0, 0); err != nil {
			done <- result{err: err}
			return
		}
		var r result
		n.Do(func() { r.out, r.err = cmd.Output() })
		done <- r
	}()
	r := <-done
	return r.out, r.err
}

// Without CAP_NET_ADMIN reading works, and every change says in one sentence what is missing.
func TestWithoutPrivilege(t *testing.T) {
	n := kerneltest.New(t)
	cmd := child(t, n, "unprivileged")
	out, err := outputWithout(n, cmd)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 7 || !strings.Contains(lines[0], "needs CAP_NET_ADMIN") || lines[1] != "true true true" {
		t.Fatalf("got\n%s", out)
	}
	for _, line := range lines[2:] {
		if !strings.HasPrefix(line, "true ") {
			t.Errorf("got %s", line)
		}
	}
	if got := n.TC("qdisc", "show", "dev", "eth1"); !strings.HasPrefix(got, "qdisc noqueue 0: root") {
		t.Errorf("tc shows %s", got)
	}
}
