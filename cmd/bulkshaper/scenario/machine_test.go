package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// cmdBurst makes the kernel say much.
func (n *node) cmdBurst(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	lines := strings.Repeat("class change dev eth1 classid 1:777 htb rate 1mbit\n", count)
	path := filepath.Join(n.dir, ".burst")
	if err := os.WriteFile(path, []byte("class add dev eth1 parent 1: classid 1:777 htb rate 1mbit\n"+lines), 0o600); err != nil {
		return err
	}
	return n.exec(ts, "tc", "-batch", path)
}

// linkSettings is struct ethtool_link_settings as far as a tap device looks at it, with masks of no words.
type linkSettings struct {
	cmd, speed                                       uint32
	duplex, port, phyAddress, autoneg, mdioSupport   uint8
	tpMDIX, tpMDIXControl                            uint8
	maskWords                                        int8
	transceiver, masterSlaveConfig, state, rateMatch uint8
	reserved                                         [7]uint32
	masks                                            [3 * 127]uint32
}

// cmdSpeed sets the speed of eth1, a tap device, by ETHTOOL_SLINKSETTINGS.
func (n *node) cmdSpeed(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	speed, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return err
	}
	n.acted = time.Now()
	n.Do(func() {
		err = setSpeed(uint32(speed))
	})
	return err
}

func setSpeed(speed uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const get, set = 0x4c, 0x4d // ETHTOOL_GLINKSETTINGS, ETHTOOL_SLINKSETTINGS
	s := &linkSettings{cmd: get}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(s)}
	copy(request.name[:], "eth1")
	defer runtime.KeepAlive(s)
	for _, cmd := range []uint32{get, get, set} {
		if s.cmd = cmd; s.maskWords < 0 {
			s.maskWords = -s.maskWords
		}
		if cmd == set {
			s.speed = speed
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return fmt.Errorf("set the speed: %w", errno)
		}
	}
	return nil
}

// cmdInterrupt ends the daemon at moments of chance.
func (n *node) cmdInterrupt(ts *testscript.TestScript, args []string) error {
	if len(args) < 3 {
		return errUsage
	}
	times, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	most, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	left, ends := map[string]int{}, map[string]int{}
	for i := range times {
		if i%2 == 0 {
			_ = n.quietly("tc", "qdisc", "del", "dev", "eth1", "root") // there may be none
		}
		if err := n.start(append([]string{"-unready"}, args[3:]...)); err != nil {
			return err
		}
		moment := rand.N(most)
		time.Sleep(moment) // the moment is what this is about
		if err := n.signal(args[1]); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		if err := n.await("the daemon's end", func() (bool, string) { return n.daemon.ended(), "it runs" }); err != nil {
			return fmt.Errorf("interrupted %s after its start: %w", moment, err)
		}
		// Before the program has asked for it, the kernel ends it at once.
		state := n.daemon.cmd.ProcessState
		if status := state.Sys().(syscall.WaitStatus); !status.Signaled() && status.ExitStatus() != 0 {
			return fmt.Errorf("interrupted %s after its start the daemon ended with %s", moment, state)
		}
		ends[state.String()]++
		switch shown := n.show(); {
		case !strings.Contains(shown, "qdisc htb 1: root"):
			left["nothing"]++
		case strings.Count(shown, "\n") < strings.Count(n.shown, "\n"):
			left["a part"]++
		default:
			left["all"]++
		}
	}
	ts.Logf("ended by %v, left standing: %v", ends, left)
	if args[1] == "TERM" && left["a part"] > 0 {
		return errors.New("it left a part of its work")
	}
	return nil
}

// cmdInventory writes an inventory with its config.
func (n *node) cmdInventory(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	folder := filepath.Join(n.dir, "many", "jsons")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var names []string
	for i := range count {
		name := fmt.Sprintf("many%05d", i)
		names = append(names, strconv.Quote(name))
		text := fmt.Sprintf(`{"name": %q, "ip_address": "10.%d.%d.%d", "cabinet": "c%d"}`, name, 64+i>>16, i>>8&255, i&255, i/20)
		if err := os.WriteFile(filepath.Join(folder, name+".json"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	all := strings.Join(names, ", ")
	for name, text := range map[string]string{
		"many.json": fmt.Sprintf(`{"servers": [%s], "roles": ["hadoop_node"], "mapping": {"hadoop_node": [%s]}}`, all, all),
		"config.yaml": `interface: eth1
node: many00000
link_rate: 10gbit
inventory: {roles: many.json, servers: [many/jsons]}
rules:
  - {name: same-cabinet,  match: {cabinet: same},     class: same-cabinet}
  - {name: cross-cabinet, match: {role: hadoop_node}, class: cross-cabinet}
`} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
