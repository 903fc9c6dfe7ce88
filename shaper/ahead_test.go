package shaper

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper/fakekernel"
	"bulkshaper/shaper/tc"
)

// slowKernel counts readings, each of which takes a second, and fails the test where two are under way at once.
type slowKernel struct {
	*fakekernel.Kernel
	t        *testing.T
	readings atomic.Int64
	now      atomic.Int64
}

func (k *slowKernel) Observe(ctx context.Context) (tc.State, error) {
	k.readings.Add(1)
	if k.now.Add(1) > 1 {
		k.t.Error("the kernel is read twice at once")
	}
	defer k.now.Add(-1)
	time.Sleep(time.Second)
	return k.Kernel.Observe(ctx)
}

// TestEditIsReadAhead: an edit costs one reading before and one after, the first begun before there is a plan; one that gives no plan
// leaves no reading behind that a later pass would take for its own.
func TestEditIsReadAhead(t *testing.T) {
	var kernel *slowKernel
	run(t, func(b *bench) {
		kernel = &slowKernel{Kernel: b.kernel, t: t}
		b.Loop.Kernel = kernel
	}, func(b *bench) {
		b.wait(10 * time.Second)
		good := b.inputs.input
		edit := func(in Input, readings int64) {
			t.Helper()
			before := kernel.readings.Load()
			b.inputs.set(in, nil)
			b.files <- struct{}{}
			b.wait(5 * time.Second)
			if got := kernel.readings.Load() - before; got != readings {
				t.Errorf("%d readings, want %d", got, readings)
			}
		}
		moved := benchInput(map[string]string{"hadoop02": "b1"})
		edit(moved, 2)
		b.shaped()
		without := benchInput(nil) // this node
		without.Inventory = inventory.New(append(without.Inventory.Servers[:1:1], without.Inventory.Servers[2:]...), without.Inventory.Roles)
		edit(without, 1)
		if b.ahead != nil {
			t.Error("a reading is left over")
		}
		// What another hand does now must be seen by the next pass.
		b.inputs.set(good, nil)
		state, err := b.kernel.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		filter := state.Filters[len(state.Filters)-1]
		b.kernel.Apply(t.Context(), testLink(), []tc.Op{{Verb: tc.Delete, Object: filter}})
		edit(good, 2)
		b.wait(time.Minute)
		b.shaped()
	})
}
