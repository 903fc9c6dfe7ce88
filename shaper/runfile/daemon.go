package runfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// daemonFile is what the daemon of a run folder holds while it lives. It has the number of its process.
const daemonFile = "daemon.lock"

// daemonPatience is how long a daemon waits for another one that is just ending.
const daemonPatience = time.Second

// InUseError says that another daemon has the run folder.
type InUseError struct {
	Dir string
	// PID is what the other one wrote as the number of its process, 0 where it could not be read.
	PID int
}

// Error says who has it and what to do.
func (e *InUseError) Error() string {
	who := "another daemon"
	if e.PID > 0 {
		who += fmt.Sprintf(" (process %d)", e.PID)
	}
	return fmt.Sprintf("the run folder %s is in use by %s: two would undo each other's shaping; stop that one (`systemctl stop bulkshaper`), "+
		"or give this one, if it shapes another interface, a --run-dir of its own", e.Dir, who)
}

// Own makes the folder this process's, until it ends in whatever way or what is returned is closed. Where another daemon has it the error is
// an *InUseError; any other says that it could not be found out, as in a folder that cannot be written.
//
// The file is for its owner alone: whoever may open it could hold it.
func Own(dir string) (io.Closer, error) {
	path := filepath.Join(dir, daemonFile)
	f, err := Lock(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, daemonPatience)
	switch {
	case errors.Is(err, ErrLocked):
		in := &InUseError{Dir: dir}
		if data, err := os.ReadFile(path); err == nil {
			in.PID, _ = strconv.Atoi(strings.TrimSpace(string(data))) // it may be just being written
		}
		return nil, in
	case err != nil:
		return nil, err
	}
	// The number is for people: without it all works as well.
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}
