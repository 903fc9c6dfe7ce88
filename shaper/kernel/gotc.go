package kernel

import (
	"errors"
	"math"
	"syscall"

	gotc "github.com/florianl/go-tc"
	mdlayher "github.com/mdlayher/netlink"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// openEncoder opens go-tc's own socket in a namespace, 0 for that of the process.
func openEncoder(namespace int) (*gotc.Tc, error) {
	t, err := gotc.Open(&gotc.Config{NetNS: namespace})
	if err != nil {
		return nil, err
	}
	_ = t.SetOption(mdlayher.ExtendedAcknowledge, true) // without it (before 4.12) errors have no text
	return t, nil
}

// encodes tells which operations go through go-tc: HTB classes that are added, and leaves with a limit. The rest it cannot
// do as we need it: it has no class change without NLM_F_CREATE, no kind without parameters, no deletion
// of a kind it does not know, and no more than one message in a sendto.
func (k *Kernel) encodes(op tc.Op) bool {
	switch o := op.Object.(type) {
	case tc.Class:
		return op.Verb == tc.Add
	case tc.Qdisc:
		known := o.Kind == tc.KindPFIFO || o.Kind == tc.KindBFIFO || o.Kind == tc.KindFQCodel
		return op.Verb != tc.Delete && o.Parent != tc.Root && known && o.Limit != 0
	}
	return false
}

// applyEncoded does an operation through go-tc. The caller holds write.mu, as go-tc is not safe for concurrent use.
func (k *Kernel) applyEncoded(index int, op tc.Op) error {
	if k.closed.Err() != nil {
		return errClosed
	}
	switch o := op.Object.(type) {
	case tc.Class:
		return explainEncoded(k.encoder.Class().Add(classObject(index, o)))
	case tc.Qdisc:
		object := leafObject(index, o)
		switch op.Verb {
		case tc.Add:
			return explainEncoded(k.encoder.Qdisc().Add(object))
		case tc.Change:
			return explainEncoded(k.encoder.Qdisc().Change(object))
		}
		return explainEncoded(k.encoder.Qdisc().Replace(object))
	}
	return errors.ErrUnsupported
}

func classObject(index int, c tc.Class) *gotc.Object {
	htb := &gotc.Htb{Parms: &gotc.HtbOpt{
		Rate: rateSpec(c.Rate), Ceil: rateSpec(c.Ceil),
		Buffer: uint32(c.Buffer), Cbuffer: uint32(c.Cbuffer), Quantum: c.Quantum, Prio: c.Prio,
	}}
	if rate := c.Rate.BytesPerSecond(); rate > math.MaxUint32 {
		htb.Rate64 = &rate
	}
	if ceil := c.Ceil.BytesPerSecond(); ceil > math.MaxUint32 {
		htb.Ceil64 = &ceil
	}
	return &gotc.Object{
		Msg:       gotc.Msg{Ifindex: uint32(index), Handle: uint32(c.ID), Parent: uint32(wire.ParentOf(c))},
		Attribute: gotc.Attribute{Kind: tc.KindHTB, Htb: htb},
	}
}

func rateSpec(r tc.BitRate) gotc.RateSpec {
	const ethernet = 1 // TC_LINKLAYER_ETHERNET, as tc sends it
	return gotc.RateSpec{Linklayer: ethernet, Rate: uint32(min(r.BytesPerSecond(), math.MaxUint32))}
}

func leafObject(index int, q tc.Qdisc) *gotc.Object {
	o := &gotc.Object{
		Msg:       gotc.Msg{Ifindex: uint32(index), Handle: uint32(q.Handle), Parent: uint32(q.Parent)},
		Attribute: gotc.Attribute{Kind: q.Kind},
	}
	switch q.Kind {
	case tc.KindPFIFO:
		o.Pfifo = &gotc.FifoOpt{Limit: q.Limit}
	case tc.KindBFIFO:
		o.Bfifo = &gotc.FifoOpt{Limit: q.Limit}
	case tc.KindFQCodel:
		o.FqCodel = &gotc.FqCodel{Limit: &q.Limit}
	}
	return o
}

// explainEncoded puts the kernel's errors into our words.
func explainEncoded(err error) error {
	var failed *mdlayher.OpError
	var errno syscall.Errno
	if errors.As(err, &failed) && errors.As(failed.Err, &errno) {
		return explain(wire.Reply{Errno: errno, Text: failed.Message})
	}
	return err
}
