package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"bulkshaper/shaper"
)

// SilentError says that nobody answered who was meant.
type SilentError struct {
	// Tried are the places, each with why not.
	Tried []string
	// Denied says that this user may not ask at a place, and who may; "" where that was not the reason. A daemon may well be there.
	Denied string
	// Holder is the process that shapes the interface all the same, and does not answer at the places tried; "" for none.
	Holder string
	// Hangs says that a daemon is there and gives no answer in time.
	Hangs bool
	// Other is the daemon of the run folder where it shapes another interface than the one meant, Status what it says of itself; nil for none.
	Other  *Daemon
	Status shaper.Status
	// Interface is the one meant.
	Interface string
}

// OtherInterface says, where the daemon of the run folder shapes another interface than the config names, that it does, and what to do.
func (e *SilentError) OtherInterface() string {
	return fmt.Sprintf("it shapes %s, and the config names %s, which a running daemon refuses: restart it (`systemctl restart bulkshaper`) to use %s, or put `interface: %s` back; for both, each needs a run_dir of its own",
		e.Status.Interface, e.Interface, e.Interface, e.Status.Interface)
}

// Error says where it was tried, and what to do where somebody else could ask.
func (e *SilentError) Error() string {
	text := "no daemon answers"
	switch {
	case e.Hangs:
		who := "the daemon"
		if e.Holder != "" {
			who += " (" + e.Holder + ")"
		}
		text = who + " hangs or is stopped: it takes questions and gives no answer; what it has shaped stands, repairs and edits wait. Its log may say why; `systemctl restart bulkshaper` leaves the shaping"
	case e.Other != nil:
		return e.Other.Name + " is this config's: " + e.OtherInterface()
	case e.Holder != "":
		text = fmt.Sprintf("the daemon that shapes the interface (%s) does not answer: it goes by another run_dir and metrics.listen than the config now has, or hangs", e.Holder)
	}
	if len(e.Tried) > 0 {
		text += " (" + strings.Join(e.Tried, "; ") + ")"
	}
	if e.Denied != "" {
		text += "; " + e.Denied
	}
	return text
}

// First is the first of places at which the daemon of an interface answers ("" for whichever it is), and its status. The error is a
// *SilentError.
func First(ctx context.Context, places []*Daemon, iface string) (*Daemon, shaper.Status, error) {
	silent := &SilentError{Interface: iface}
	for _, d := range places {
		s, err := d.first(ctx)
		var hang *HangError
		switch {
		case errors.As(err, &hang):
			silent.Tried, silent.Hangs = append(silent.Tried, d.Name+": "+cause(err)), true
			return nil, shaper.Status{}, silent // at the other places it is the same one
		case err != nil:
			silent.Tried = append(silent.Tried, d.Name+": "+cause(err))
			if errors.Is(err, fs.ErrPermission) && d.socket != "" {
				silent.Denied = denied(d.socket)
			}
		case iface != "" && iface != s.Interface:
			silent.Tried = append(silent.Tried, fmt.Sprintf("%s shapes %s, not %s", d.Name, s.Interface, iface))
			if d.socket != "" {
				silent.Other, silent.Status = d, s
			}
		default:
			return d, s, nil
		}
	}
	return nil, shaper.Status{}, silent
}

// first is the status of a daemon that answers in time.
func (d *Daemon) first(ctx context.Context) (shaper.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return d.Status(ctx)
}

// denied is who may ask at a socket at which this user may not.
func denied(socket string) string {
	text := "this user may not ask at " + socket + ": run it as root"
	info, err := os.Stat(socket)
	if err != nil {
		return text // the folder lets nobody else in, as systemd's /run/private of a DynamicUser=
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		text += groupText(st.Gid, info.Mode())
	}
	return text
}

// groupText names the group whose members may ask, where that is one that people are in.
func groupText(gid uint32, mode fs.FileMode) string {
	if gid == 0 || mode.Perm()&0o020 == 0 {
		return ""
	}
	group := "gid " + strconv.Itoa(int(gid))
	if g, err := user.LookupGroupId(strconv.Itoa(int(gid))); err == nil {
		group = g.Name
	}
	return ", or as a member of group " + group
}
