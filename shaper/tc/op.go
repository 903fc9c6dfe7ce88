package tc

import "strings"

// Verb is what an operation does.
type Verb string

// The verbs, in tc's words.
const (
	Add     Verb = "add"
	Change  Verb = "change"  // in place: queue and counters stay
	Replace Verb = "replace" // a qdisc takes the place of another
	Delete  Verb = "delete"
)

// Object is a Qdisc, a Class, a Filter or a Pref.
type Object interface {
	// Type is "qdisc", "class" or "filter".
	Type() string
	// Ident is the type and what tells this object from others of its type, as in "class 1:10".
	Ident() string
	tcArgs(verb Verb, dev string) []string
}

// Op is one operation on the kernel: one netlink message.
type Op struct {
	Verb   Verb
	Object Object
	// Why says what is wrong or missing now, for a person: "not there", "rate is 100mbit, not 200mbit".
	Why string
	// Hitless says that no packet is dropped, reordered or sent by a class that neither the old nor the new plan gives it.
	Hitless bool
	// Barrier says that the operation changes nothing: what comes behind it has to wait for packets that are being classified.
	Barrier bool
	// Drains is the class whose waiting packets the operation throws away, where it may be put off until none wait. What drains is put off
	// as well while anything else is. Unspec of the rest.
	Drains Handle
}

// TC is the operation as a line for tc -batch.
func (o Op) TC(dev string) string { return strings.Join(o.Object.tcArgs(o.Verb, dev), " ") }

// String is verb and object: "change class 1:10".
func (o Op) String() string { return string(o.Verb) + " " + o.Object.Ident() }
