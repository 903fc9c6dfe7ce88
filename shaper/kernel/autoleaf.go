package kernel

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// findAutoLeaf is what a leaf of kind auto is: what our leaves already are, so that nothing is replaced without need; else
// fq_codel where the kernel has it; else pfifo, which every kernel has. The caller holds read.mu.
func (k *Kernel) findAutoLeaf(s tc.State) string {
	for _, q := range s.Qdiscs {
		own := q.Parent.Major() == tc.Major && q.Parent.Minor() != 0 && q.Handle == tc.LeafHandle(q.Parent.Minor())
		if own && (q.Kind == tc.KindFQCodel || q.Kind == tc.KindPFIFO) {
			return q.Kind
		}
	}
	if k.autoLeaf == "" {
		known, err := probe(k.read, s.Link.Index, freeHandle(s.Qdiscs), tc.KindFQCodel)
		switch {
		case err != nil: // not permitted, most likely: ask again next time
			return guessLeaf(s)
		case known:
			k.autoLeaf = tc.KindFQCodel
		default:
			k.autoLeaf = tc.KindPFIFO
		}
	}
	return k.autoLeaf
}

// guessLeaf is for a process that may not ask the kernel: it looks where fq_codel leaves a trace.
func guessLeaf(s tc.State) string {
	if root, ok := s.RootQdisc(); ok && root.Kind == tc.KindFQCodel {
		return tc.KindFQCodel
	}
	if _, err := os.Stat("/sys/module/sch_fq_codel"); err == nil {
		return tc.KindFQCodel
	}
	if kind, err := os.ReadFile("/proc/sys/net/core/default_qdisc"); err == nil && strings.TrimSpace(string(kind)) == tc.KindFQCodel {
		return tc.KindFQCodel
	}
	return tc.KindPFIFO
}

// freeHandle is a qdisc handle that nothing has.
func freeHandle(qdiscs []tc.Qdisc) tc.Handle {
	taken := map[tc.Handle]bool{}
	for _, q := range qdiscs {
		taken[q.Handle] = true
	}
	for major := uint16(0x7ff0); ; major-- {
		if h := tc.MakeHandle(major, 0); !taken[h] {
			return h
		}
	}
}

// probe asks whether the kernel knows a kind of qdisc, and has it load its module where that is permitted. Nothing is ever
// attached, see wire.AppendProbeQdisc. Where a root stands already the answer is EEXIST before the kind is looked up; then the
// question is put again as one for its replacement.
// The caller holds c's lock.
func probe(c *conn, index int, handle tc.Handle, kind string) (bool, error) {
	for _, flag := range []uint16{unix.NLM_F_EXCL, unix.NLM_F_REPLACE} {
		seq := c.next()
		c.out = wire.AppendProbeQdisc(c.out[:0], wire.Header{Flags: unix.NLM_F_CREATE | unix.NLM_F_ACK | flag, Seq: seq}, index, handle, kind)
		replies, err := c.exchange(c.out, seq, 1)
		if err != nil {
			return false, err
		}
		switch replies[0].Errno {
		case unix.EOPNOTSUPP, unix.EINVAL:
			return true, nil
		case unix.ENOENT:
			return false, nil
		case unix.EEXIST:
		default:
			return false, fmt.Errorf("probe qdisc %s: %w", kind, explain(replies[0]))
		}
	}
	return false, fmt.Errorf("probe qdisc %s: %w", kind, unix.EEXIST)
}
