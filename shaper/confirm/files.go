package confirm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/runfile"
)

// Place is where the guard of an interface is met: files of the run folder, named after the interface.
type Place struct{ Dir, Interface string }

func (p Place) name(suffix string) string { return "confirm-" + p.Interface + suffix }
func (p Place) socket() string            { return filepath.Join(p.Dir, p.name(".sock")) }

// Lock takes the place, until what it returns is closed here and in the processes that inherited it. The error is runfile.ErrLocked
// while a guard has it. The file may be opened by the daemon, too, who asks only whether it is held.
func (p Place) Lock() (*os.File, error) {
	f, err := runfile.Lock(filepath.Join(p.Dir, p.name(".lock")), os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW, 0)
	if err == nil {
		err = f.Chmod(0o644)
		if errors.Is(err, os.ErrPermission) { // somebody else's, made before
			err = nil
		}
	}
	return f, err
}

// Record is what the guard leaves in the run folder.
type Record struct {
	// Until is when it puts back what was, Done when it did something: kept the new shaping, or put back the old one.
	Until time.Time `json:"until"`
	Done  time.Time `json:"done,omitzero"`
	// Outcome is what it did, in words; "" while it waits.
	Outcome string `json:"outcome,omitempty"`
	// Back says that the shaping before was put back, or could not be.
	Back bool `json:"back,omitempty"`
}

const maxRecord = 64 << 10

func (p Place) write(r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return runfile.Write(p.Dir, p.name(".state"), append(data, '\n'), 0o644)
}

// Last is what the last guard left; false where there was none.
func (p Place) Last() (r Record, ok bool) {
	data, err := runfile.Read(p.Dir, p.name(".state"), maxRecord)
	return r, err == nil && json.Unmarshal(data, &r) == nil
}

// Over notes that a later apply or a daemon shaped, so that what the last one with a confirmation had lost is of no interest any more.
func (p Place) Over() error {
	if p.Lost() == "" {
		return nil
	}
	return p.write(Record{Until: time.Now(), Done: time.Now(), Outcome: overtaken})
}

// overtaken is the outcome that Over notes.
const overtaken = "what the files said was applied later, without --confirm"

// Lost says what became of the last apply if what it made was lost without anybody's wish, or may never be taken back; "" else.
func (p Place) Lost() string {
	last, ok := p.Last()
	switch {
	case !ok:
		return ""
	case last.Outcome == "":
		if _, pending := p.Pending(); pending {
			return ""
		}
		return fmt.Sprintf("the process that would have put back the shaping before, at %s, was killed, so the new one stays", last.Until.Local().Format(time.DateTime))
	case last.Back:
		return fmt.Sprintf("the last apply --confirm: %s, at %s", last.Outcome, last.Done.Local().Format(time.DateTime))
	}
	return ""
}

// grace is how much longer than it said a guard may take, for the putting back.
const grace = time.Minute

// Pending tells whether a confirmation is due, and until when.
func (p Place) Pending() (until time.Time, pending bool) {
	r, ok := p.Last()
	if !ok || r.Outcome != "" || time.Now().Round(0).After(r.Until.Add(grace)) {
		return time.Time{}, false
	}
	f, err := p.Lock()
	if err == nil {
		_ = f.Close() // nobody holds it: the guard is dead
		return time.Time{}, false
	}
	return r.Until, errors.Is(err, runfile.ErrLocked)
}

// The words that the guard takes at its socket.
const (
	// Keep confirms.
	Keep = "keep"
	// Back puts back what was, now.
	Back = "back"
)

// askPatience is how long the guard may take for an answer: putting back 100,000 filters takes seconds.
const askPatience = time.Minute

// Ask says a word to the guard and gives its answer. The error is unix.ENOENT or unix.ECONNREFUSED where there is no guard.
func (p Place) Ask(word string) (string, error) {
	connection, err := net.Dial("unix", p.socket())
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(askPatience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(connection, word); err != nil {
		return "", err
	}
	return answer(bufio.NewReader(connection))
}

// An answer is a line: "ok " or "error " and words.
func answer(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the guard's answer: %w", err)
	}
	if text, ok := strings.CutPrefix(strings.TrimSpace(line), "ok "); ok {
		return text, nil
	}
	return "", errors.New(strings.TrimPrefix(strings.TrimSpace(line), "error "))
}

func answerLine(text string, err error) string {
	if err != nil {
		return "error " + strings.ReplaceAll(err.Error(), "\n", "; ") + "\n"
	}
	return "ok " + text + "\n"
}
