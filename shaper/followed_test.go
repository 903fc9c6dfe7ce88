package shaper

import "testing"

// TestLoopTellsItsInventory: the hash is that of the inventory which is followed, from the start on and after each edit.
func TestLoopTellsItsInventory(t *testing.T) {
	run(t, nil, func(b *bench) {
		first := b.Snapshot().InventoryHash()
		if want := b.inputs.input.Inventory.Hash(); first != want {
			t.Errorf("at the start it is %d, want %d", first, want)
		}
		edited := benchInput(map[string]string{"hadoop02": "b1"})
		b.inputs.set(edited, nil)
		b.files <- struct{}{}
		b.wait(0)
		b.shaped()
		if got, want := b.Snapshot().InventoryHash(), edited.Inventory.Hash(); got != want || got == first {
			t.Errorf("after an edit it is %d, want %d and not %d", got, want, first)
		}
	})
}
