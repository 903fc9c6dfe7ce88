package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// changers names who changes traffic control, by the port of their netlink socket. It remembers the last, since tc makes one port busy
// for thousands of filters.
type changers struct {
	port uint32
	text string
	// looked is when the owner of a port was last looked for.
	looked time.Time
}

// name is who has a port. The kernel gives a socket that asks for no port of its own the number of its process (netlink_autobind in
// net/netlink/af_netlink.c), in the PID namespace of that process; the program is the one that has that number here, if any has, and may
// be seen. A port that is none of those is that of a further socket of some process.
func (c *changers) name(port uint32) string {
	if port == 0 {
		return "" // the kernel itself
	}
	if port == c.port {
		return c.text
	}
	c.port = port
	pid := int(port)
	if port > maxPID {
		c.text = fmt.Sprintf("a program with several netlink sockets (perhaps another bulkshaper: `pgrep -a bulkshaper`; port %d)", port)
		if pid = c.owner(port); pid == 0 {
			return c.text
		}
	}
	c.text = fmt.Sprintf("process %d", pid)
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		program := strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, strings.TrimSpace(string(data)))
		c.text += " (" + program + ")"
	}
	return c.text
}

// ownerEvery is how seldom the files of all processes are looked through: that takes milliseconds, in which nothing is received.
const ownerEvery = time.Second

// owner is the process that has the routing socket of a port open, 0 where it may not be seen, is gone, or was looked for just now.
func (c *changers) owner(port uint32) (pid int) {
	if time.Since(c.looked) < ownerEvery {
		return 0
	}
	defer func() { c.looked = time.Now() }()
	inode := inodeOf(port)
	if inode == "" {
		return 0
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, p := range processes {
		n, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", p.Name(), "fd")
		files, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range files {
			if target, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && target == "socket:["+inode+"]" {
				return n
			}
		}
	}
	return 0
}

// inodeOf finds the routing socket of a port of this network namespace, "" for none. A line of the file is: address, protocol, port, groups
// and so on, the inode last.
func inodeOf(port uint32) string {
	data, err := os.ReadFile("/proc/thread-self/net/netlink")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "0" && f[2] == strconv.FormatUint(uint64(port), 10) {
			return f[len(f)-1]
		}
	}
	return ""
}

// maxPID is the largest number of a process (PID_MAX_LIMIT); ports that the kernel chooses for further sockets are far above.
const maxPID = 4 << 20
