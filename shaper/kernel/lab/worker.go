package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Guest is a server as a worker sees it: a namespace to open sockets in, and an address.
type Guest struct {
	*Namespace
	Name    string
	Address netip.Addr
}

// Worker is this program, run again with a way into every server, so that traffic has a scheduling priority of its own. It ends
// when this process does, however that happens.
type Worker struct {
	*Process
	// In is the worker's standard input, Out its output.
	In, Out *os.File
}

// firstGuest is the descriptor of the first server in a worker.
const firstGuest = 3

// Worker starts this program with args and a word for each server, of which Guests makes the servers again. It writes its
// errors to log.
func (c *Cluster) Worker(args []string, log *os.File) (_ *Worker, err error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start worker: %w", err), in.Close())
	}
	defer theirOut.Close()
	files := []*os.File{theirIn, theirOut, log}
	for _, h := range c.Hosts() {
		args = append(args[:len(args):len(args)], strings.Join([]string{h.Name, h.Address.String(), h.congestion}, "="))
		files = append(files, h.file)
	}
	process, err := c.start("/proc/self/exe", args, &os.ProcAttr{Env: os.Environ(), Files: files})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start worker: %w", err), in.Close(), out.Close())
	}
	return &Worker{Process: process, In: in, Out: out}, nil
}

// Close ends the worker: the end of its input tells it so.
func (w *Worker) Close() error {
	err := w.In.Close()
	w.Kill()
	return errors.Join(err, w.Out.Close())
}

// Guests are the servers of a cluster, in a worker of that cluster: words are what its arguments end in.
func Guests(words []string) ([]Guest, error) {
	var guests []Guest
	for i, word := range words {
		name, rest, _ := strings.Cut(word, "=")
		text, congestion, _ := strings.Cut(rest, "=")
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", word, err)
		}
		fd := firstGuest + i
		var kind unix.Statfs_t
		if err := unix.Fstatfs(fd, &kind); err != nil || kind.Type != unix.NSFS_MAGIC {
			return nil, fmt.Errorf("server %q: descriptor %d is no namespace", word, fd)
		}
		unix.CloseOnExec(fd)
		guests = append(guests, Guest{Namespace: &Namespace{name: name, file: os.NewFile(uintptr(fd), name), congestion: congestion}, Name: name, Address: address})
	}
	return guests, nil
}

// SetNice gives this process a scheduling priority, from -20, served first, to 19. A raise takes CAP_SYS_NICE in the machine's
// own user namespace.
func SetNice(value int) error {
	// In Linux it is a matter of each thread, and a new one has that of its maker. So what is made meanwhile is found the second time.
	for range 2 {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("set priority: %w", err)
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				return fmt.Errorf("set priority: %w", err)
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, value); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("set priority %d: %w", value, err)
			}
		}
	}
	return nil
}
