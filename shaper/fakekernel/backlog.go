package fakekernel

import "bulkshaper/shaper/tc"

// SetBacklog lets packets wait in a class, as if it had no rate left.
func (k *Kernel) SetBacklog(id tc.Handle, packets uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.classes[id]; ok {
		c.backlog = packets
	}
}
