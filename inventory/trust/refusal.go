package trust

import (
	"fmt"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// Refusal says who else may write a path, and how to change that. That it may also be allowed is for the caller to say.
type Refusal struct{ Path, Message, Remedy string }

// Error is path: message; remedy.
func (r *Refusal) Error() string { return r.Path + ": " + r.Message + "; " + r.Remedy }

// belongs refuses what has the wrong owner.
func belongs(path, what string, st *unix.Stat_t) *Refusal {
	remedy := "chown root "
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		remedy = "chown -h root "
	}
	return &Refusal{path, fmt.Sprintf("not trusted: %s belongs to user %s, who is neither root nor the one that bulkshaper runs as (%s)", what, userName(st.Uid), facts(st)),
		remedy + path}
}

// written refuses what others may write.
func written(path, what, who string, st *unix.Stat_t) *Refusal {
	remedy := "chmod "
	switch group, other := st.Mode&unix.S_IWGRP != 0, st.Mode&unix.S_IWOTH != 0; {
	case group && other:
		remedy += "go-w "
	case other:
		remedy += "o-w "
	default:
		remedy += "g-w "
	}
	return &Refusal{path, fmt.Sprintf("not trusted: %s may write %s (%s)", who, what, facts(st)), remedy + path}
}

// facts is what `ls -l` shows.
func facts(st *unix.Stat_t) string {
	return fmt.Sprintf("mode %04o, owner %s, group %s", st.Mode&0o7777, userName(st.Uid), groupName(st.Gid))
}

// userName is the name where there is one: a file from another machine has a number only.
func userName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

func groupName(gid uint32) string {
	number := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(number); err == nil {
		return g.Name
	}
	return number
}
