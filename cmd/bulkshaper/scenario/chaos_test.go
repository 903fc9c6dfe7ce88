package scenario

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// seedVariable repeats a run of chaos: its value is the seed that the failed one logged.
const seedVariable = "SCENARIO_SEED"

// deeds are what another hand may do, each a batch of lines for ip and tc that stop at none that fails. None leaves anything behind that is
// not ours to remove.
func (n *node) deeds(r *rand.Rand) []string {
	class := func() string { return []string{"10", "20", "100", "ffff"}[r.IntN(4)] }
	leaf := map[string]string{"10": "b010", "20": "b020", "100": "b100", "ffff": "4fff"}
	pref := []string{"arp pref 11000", "ipv6 pref 11001", map[string]string{"hash": "ip pref 11100", "list": "ip pref 12000"}[n.layout]}[r.IntN(3)]
	ours := map[string]string{"hash": "ip pref 11100", "list": "ip pref 12000"}[n.layout]
	one := map[string]string{"hash": fmt.Sprintf("1:%x:200", 0xd+r.IntN(8)), "list": fmt.Sprintf("802::%x", 1+r.IntN(21))}[n.layout]
	a, b := class(), class()
	return []string{
		"tc qdisc del dev eth1 root",
		"tc qdisc replace dev eth1 root handle 42: htb default 7",
		"tc qdisc replace dev eth1 root handle 8001: bfifo",
		"tc qdisc del dev eth1 root\ntc qdisc add dev eth1 root handle 1: htb default 20\ntc class add dev eth1 parent 1: classid 1:" + a + " htb rate 1mbit",
		"tc class change dev eth1 classid 1:" + a + " htb rate " + strconv.Itoa(1+r.IntN(900)) + "mbit",
		"tc class change dev eth1 classid 1:" + a + " htb rate 1mbit ceil 2mbit prio 7 quantum 1600",
		"tc filter del dev eth1 parent 1:\ntc class del dev eth1 classid 1:" + a,
		"tc filter del dev eth1 parent 1:\ntc class del dev eth1 classid 1:" + a + "\ntc class add dev eth1 parent 1:" + b + " classid 1:" + a + " htb rate 1mbit",
		"tc qdisc del dev eth1 parent 1:" + a + " handle " + leaf[a] + ":",
		"tc qdisc replace dev eth1 parent 1:" + a + " handle 77: pfifo limit 3",
		"tc qdisc replace dev eth1 parent 1:" + a + " handle 78: tbf rate 1mbit burst 10k latency 10ms",
		"tc qdisc change dev eth1 parent 1:" + a + " handle " + leaf[a] + ": pfifo limit 7",
		"tc filter del dev eth1 parent 1: protocol " + pref,
		"tc filter del dev eth1 parent 1:",
		"tc filter del dev eth1 parent 1: protocol " + ours + " handle " + one + " u32",
		"tc filter change dev eth1 parent 1: protocol " + ours + " handle " + one + " u32 flowid 1:" + a,
		"tc filter add dev eth1 parent 1: protocol " + ours + " u32 match ip dst 10.241.28.14/32 flowid 1:" + a,
		"tc filter add dev eth1 parent 1: protocol " + ours + " u32 match ip dst 10.241.0.0/16 flowid 1:" + a,
		"tc filter add dev eth1 parent 1: protocol " + ours + " handle 3f: u32 divisor 16",
		"ip link set eth1 down\nip link set eth1 up",
		"ip link set eth1 mtu 1400\nip link set eth1 mtu 1500",
		"ip link set eth1 txqueuelen 0\nip link set eth1 txqueuelen 1000",
		"ip link set eth1 down\nip link set eth1 name eth9\nip link set eth9 name eth1\nip link set eth1 up",
		"ip link set eth1 netns " + pathOf(n.Peer().FD()) + "\npeer ip link set eth1 netns " + pathOf(n.FD()) + "\nip link set eth1 up",
		"tc qdisc add dev eth1 clsact\ntc qdisc del dev eth1 clsact",
		"tc filter add dev eth1 parent 1: protocol ip pref 7 u32 match u32 0 0 flowid 1:" + a + "\ntc filter del dev eth1 parent 1: protocol ip pref 7",
	}
}

// cmdChaos does some deeds of chance, in an order of chance, round after round, and after each round what is wanted must stand.
// A new daemon begins each, since one that has repaired too often waits.
func (n *node) cmdChaos(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	rounds, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return err
		}
	}
	ts.Logf("%s=%d", seedVariable, seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range rounds {
		var done []string
		for range 1 + r.IntN(4) {
			deeds := n.deeds(r)
			deed := deeds[r.IntN(len(deeds))]
			done = append(done, deed)
			n.do(deed)
			if strings.Contains(deed, "netns") || strings.Contains(deed, " name ") {
				// On an interface that is new, or was away under another name, the first root counts: what somebody puts there before ours stands whole
				// is not ours to take.
				if err := n.cmdRestored(ts, nil); err != nil {
					return fmt.Errorf("round %d, after\n%s\n%w", round, strings.Join(done, "\n"), err)
				}
			}
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond) // deeds meet the daemon at any moment
		}
		if err := n.cmdRestored(ts, nil); err != nil {
			return fmt.Errorf("round %d, after\n%s\n%w", round, strings.Join(done, "\n"), err)
		}
		if err := n.cmdDaemon(ts, []string{"restart"}); err != nil {
			return fmt.Errorf("round %d, after\n%s\n%w", round, strings.Join(done, "\n"), err)
		}
	}
	return nil
}

// do does the lines of a deed, those that fail as well.
func (n *node) do(deed string) {
	n.acted = time.Now()
	for line := range strings.Lines(deed) {
		words := strings.Fields(line)
		if words[0] == "peer" {
			_ = n.quietlyIn(n.Peer(), words[1], words[2:]...)
			continue
		}
		_ = n.quietly(words[0], words[1:]...)
	}
}
