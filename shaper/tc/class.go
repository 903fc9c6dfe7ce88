package tc

import "strconv"

// Class is an HTB class: struct tc_htb_opt with the 64 bit rates.
type Class struct {
	// ID is the classid, 1:10.
	ID Handle
	// Parent is the class above, or Root.
	Parent Handle
	// Leaf is the handle of the qdisc below; read back only, Unspec for an inner class and for a leaf that the kernel made.
	Leaf Handle
	// Level is 0 for a leaf and more for an inner class; read back only.
	Level uint32
	// Prio is served lowest first when rate is left to share, 0 to 7.
	Prio uint32
	// Rate is what the class is promised and Ceil what it may reach by borrowing, both whole bytes per second.
	Rate, Ceil BitRate
	// Buffer and Cbuffer are burst and cburst as the time they take at Rate and at Ceil.
	Buffer, Cbuffer Ticks
	// Quantum is how many bytes the class may send in its turn when it borrows.
	Quantum uint32
}

// Burst is the bytes that may go at once within Rate.
func (c Class) Burst() Bytes { return c.Buffer.BytesAt(c.Rate) }

// Cburst is the bytes that may go at once within Ceil.
func (c Class) Cburst() Bytes { return c.Cbuffer.BytesAt(c.Ceil) }

// SameParameters tells whether c and d are alike in all that a class change can set.
func (c Class) SameParameters(d Class) bool {
	return c.Prio == d.Prio && c.Rate == d.Rate && c.Ceil == d.Ceil && c.Buffer == d.Buffer && c.Cbuffer == d.Cbuffer && c.Quantum == d.Quantum
}

// Type is the kind of object: "class".
func (Class) Type() string { return "class" }

// Ident is the type and what tells this object from others of its type.
func (c Class) Ident() string { return "class " + c.ID.String() }

func (c Class) tcArgs(verb Verb, dev string) []string {
	args := []string{"class", string(verb), "dev", dev}
	if verb != Delete {
		parent := c.Parent
		if parent == Root {
			parent = MakeHandle(c.ID.Major(), 0)
		}
		args = append(args, "parent", parent.String())
	}
	args = append(args, "classid", c.ID.String())
	if verb == Delete {
		return args
	}
	number := func(v uint64) string { return strconv.FormatUint(v, 10) }
	return append(args, "htb", "prio", number(uint64(c.Prio)), "rate", c.Rate.String(), "ceil", c.Ceil.String(),
		"burst", number(uint64(c.Buffer.forTC(c.Rate)))+"b", "cburst", number(uint64(c.Cbuffer.forTC(c.Ceil)))+"b",
		"quantum", number(uint64(c.Quantum)))
}
