package trust

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Guard knows who may write. A nil one lets everybody. It is safe for use by several goroutines.
type Guard struct {
	uid, gid uint32
	// caller is who became root by sudo.
	caller uint32
	// unknown is the user number that stands for all whom our user namespace does not know, nobody's own number where there is none.
	unknown uint32
}

// nobody is no user's number: chown(2) takes it for "leave it".
const nobody = ^uint32(0)

// New makes a guard for the user and the group that the program runs as.
func New() *Guard {
	text, err := os.ReadFile("/proc/self/uid_map")
	unknown := nobody
	if err == nil { // without /proc there is no user namespace to be expected
		unknown = unknownUser(string(text))
	}
	g := &Guard{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()), caller: nobody, unknown: unknown}
	if g.uid == 0 {
		g.caller = sudoer(os.Getenv("SUDO_UID"))
	}
	return g
}

// sudoer is the user who called sudo: root by his own will, and with his own files (as git has it with safe.directory). A service has
// none.
func sudoer(uid string) uint32 {
	n, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		return nobody
	}
	return uint32(n)
}

// overflow is what the kernel shows for a user without a number in our user namespace (user_namespaces(7)); it may be set to
// another, which nobody does.
const overflow = 65534

// unknownUser reads the ranges of a uid_map. In a namespace that an ordinary user made of himself, the root of the machine is one of
// those without a number; that their files are here was decided by who made the namespace. Where the number is also that of a user,
// it may be his.
func unknownUser(uidMap string) uint32 {
	for _, line := range strings.Split(uidMap, "\n") {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[0], 10, 32)
		length, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 != nil || err2 != nil || first <= overflow && overflow < first+length {
			return nobody
		}
	}
	return overflow
}

// owner tells whether files of this user may be used.
func (g *Guard) owner(uid uint32) bool {
	return uid == 0 || uid == g.uid || uid == g.caller || uid == g.unknown
}

// writers is who else may write what has this owner and this mode, "" for nobody. acl is asked for the access list where that matters.
func (g *Guard) writers(st *unix.Stat_t, acl func() (int, error)) string {
	var who []string
	if st.Mode&unix.S_IWGRP != 0 {
		switch {
		case st.Gid != 0 && st.Gid != g.gid:
			who = append(who, "group "+groupName(st.Gid))
		default:
			// With a list the bits of the group are a mask over all that it lists. A file system may have no lists.
			if n, err := acl(); err == nil && n > 0 {
				who = append(who, "those in its access list")
			}
		}
	}
	if st.Mode&unix.S_IWOTH != 0 {
		who = append(who, "everybody")
	}
	return strings.Join(who, " and ")
}

// File judges an open file by its descriptor and what fstat said of it. The way to it is for Walk.
func (g *Guard) File(fd int, path string, st *unix.Stat_t) *Refusal {
	if g == nil {
		return nil
	}
	return g.judge(path, st, func() (int, error) { return unix.Fgetxattr(fd, aclName, nil) })
}

func (g *Guard) judge(path string, st *unix.Stat_t, acl func() (int, error)) *Refusal {
	if !g.owner(st.Uid) {
		return belongs(path, "it", st)
	}
	who := g.writers(st, acl)
	if who == "" {
		return nil
	}
	return written(path, "it", who, st)
}

// Path judges a file that is not ours to open, and the way to it. What does not exist is for the reading to tell.
func (g *Guard) Path(path string) *Refusal {
	if g == nil {
		return nil
	}
	if refusal := g.Walk().To(path); refusal != nil {
		return refusal
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return nil
	}
	return g.judge(path, &st, func() (int, error) { return unix.Getxattr(path, aclName, nil) })
}

const aclName = "system.posix_acl_access"
