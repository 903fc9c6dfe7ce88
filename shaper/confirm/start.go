package confirm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, also when its file was replaced by an upgrade.
const self = "/proc/self/exe"

// The guard's descriptors beside the standard ones.
const (
	lockDescriptor   = 3
	parentDescriptor = 4
)

// Started is a guard as its apply sees it.
type Started struct {
	talk   *os.File
	answer *bufio.Reader
}

// Start starts this program anew as a guard, with args, and waits until it is ready. It gets the lock. The process is made by
// os.StartProcess and lives on its own: setsid takes it out of the session, so that the terminal's end does not reach it.
func Start(args []string, lock *os.File) (*Started, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "guard"), os.NewFile(uintptr(pair[1]), "apply")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), ours.Close())
	}
	defer null.Close()
	process, err := os.StartProcess(self, args, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{null, null, null, lock, theirs},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), ours.Close())
	}
	if err := process.Release(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), ours.Close())
	}
	s := &Started{ours, bufio.NewReader(ours)}
	if err := theirs.Close(); err != nil { // so that its end is seen as one
		return nil, errors.Join(err, ours.Close())
	}
	if _, err := answer(s.answer); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return s, nil
}

// Inherited are the descriptors that Start gave this process: the lock, which only has to stay open, and the way to the apply.
func Inherited() (lock *os.File, parent io.ReadWriteCloser) {
	unix.CloseOnExec(lockDescriptor)
	unix.CloseOnExec(parentDescriptor)
	return os.NewFile(lockDescriptor, "lock"), os.NewFile(parentDescriptor, "apply")
}

// Applied tells the guard that the new shaping stands, and that its time begins.
func (s *Started) Applied() error { _, err := s.say(wordApplied); return err }

// Failed tells the guard that it does not stand. It gives what the guard did about it.
func (s *Started) Failed() (string, error) { return s.say(wordFailed) }

// Unchanged tells the guard that nothing was changed, so that nothing has to be confirmed.
func (s *Started) Unchanged() error {
	_, err := fmt.Fprintln(s.talk, wordUnchanged)
	return errors.Join(err, s.talk.Close())
}

func (s *Started) say(word string) (string, error) {
	if _, err := fmt.Fprintln(s.talk, word); err != nil {
		return "", errors.Join(fmt.Errorf("tell the guard: %w", err), s.talk.Close())
	}
	text, err := answer(s.answer)
	return text, errors.Join(err, s.talk.Close())
}
