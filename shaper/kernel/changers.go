package kernel

import (
	"fmt"
	"os"
	"strings"
	"unicode"
)

// changers names who changes traffic control, by the port of their netlink socket. It remembers the last, since tc makes one port busy
// for thousands of filters.
type changers struct {
	port uint32
	text string
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
	c.port, c.text = port, fmt.Sprintf("a program with several netlink sockets (port %d)", port)
	if port > maxPID {
		return c.text
	}
	c.text = fmt.Sprintf("process %d", port)
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", port)); err == nil {
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

// maxPID is the largest number of a process (PID_MAX_LIMIT); ports that the kernel chooses for further sockets are far above.
const maxPID = 4 << 20
