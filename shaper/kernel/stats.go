package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// Stats reads the counters of the classes and the root qdisc, not the filters, once: counters change all the time. The error is
// tc.ErrNoInterface while there is no such interface.
func (k *Kernel) Stats(ctx context.Context) (tc.Stats, error) {
	if err := ctx.Err(); err != nil {
		return tc.Stats{}, err
	}
	k.stats.mu.Lock()
	defer k.stats.mu.Unlock()
	link, err := k.link()
	if err != nil {
		return tc.Stats{}, err
	}
	index := link.Attrs().Index
	var s tc.Stats
	for range maxReads {
		s, err = readStats(k.stats, index)
		if !errors.Is(err, errTorn) {
			break
		}
	}
	if err != nil {
		return tc.Stats{}, fmt.Errorf("read counters of %s: %w", k.name, err)
	}
	return s, nil
}

func readStats(c *conn, index int) (tc.Stats, error) {
	s := tc.Stats{Time: time.Now()}
	var h maphash.Hash
	qdiscs, err := readQdiscs(c, index, &h)
	if err != nil {
		return s, err
	}
	root, ok := tc.State{Qdiscs: qdiscs}.RootQdisc()
	if !ok {
		return s, nil
	}
	s.Root, s.DirectPackets = root, uint64(root.HTB.DirectPackets)
	if root.Kind != tc.KindHTB || root.Handle == tc.Unspec {
		return s, nil
	}
	err = c.dump(unix.RTM_GETTCLASS, index, root.Handle, func(o wire.Object) error {
		if o.Index != index || o.Kind != tc.KindHTB || tc.Handle(o.Handle).Major() != root.Handle.Major() {
			return nil
		}
		class, err := o.ClassStats()
		s.Classes = append(s.Classes, class)
		return err
	})
	return s, err
}
