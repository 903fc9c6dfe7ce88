package hitless

import (
	"fmt"
	"testing"
)

// eachTarget is after how many changes every target is asked by itself.
const eachTarget = 20

// TestChanges: under steady packets to 200 destinations the inventory changes at random.
func TestChanges(t *testing.T) {
	r, _ := seeded(t)
	c := newCluster(r, 200)
	b := newBed(t)
	old := b.want(c)
	b.converge(old)
	b.startSender(t, c.targets)
	ops := 0
	for i := range changes {
		kind := c.edit()
		w := b.want(c)
		what := fmt.Sprintf("change %d (%s, layout %s)", i, kind, c.layout)
		ops += b.change(what, w, old)
		if i%eachTarget == 0 {
			b.each(what, w)
		}
		old = w
	}
	b.arrived(old)
	t.Logf("%d changes, %d operations, %d packets, %d servers at last; %v", changes, ops, b.packets, len(c.servers), c.edits)
	if b.packets < 100*changes {
		t.Errorf("only %d packets: the test proves little", b.packets)
	}
}
