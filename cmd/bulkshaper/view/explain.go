package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/shaper/tc"
)

// Explanation is what one address gets, and why. The names of its fields are part of the contract.
type Explanation struct {
	Destination string       `json:"destination"`
	Address     string       `json:"address"`
	Server      string       `json:"server"`
	Cabinet     string       `json:"cabinet"`
	Datacenter  string       `json:"datacenter"`
	Roles       []string     `json:"roles"`
	Rule        string       `json:"rule"`
	Class       string       `json:"class"`
	ClassID     string       `json:"classid"`
	Own         bool         `json:"own"`
	Kernel      KernelAnswer `json:"kernel"`
	// Ack is what a pure TCP acknowledgement gets; nil where that is the same as all else.
	Ack *AckAnswer `json:"ack,omitempty"`
	// File and Prefix are where the inventory names the address.
	File   string `json:"file,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Tried are the rules before that do not match; Matches is what the rule asks for, RulePlace where it is written.
	Tried     []Tried `json:"tried,omitempty"`
	Matches   string  `json:"matches,omitempty"`
	RulePlace string  `json:"rule_place,omitempty"`
	Rate      uint64  `json:"rate_bits_per_second,omitempty"`
	Ceil      uint64  `json:"ceil_bits_per_second,omitempty"`
	Shared    *Shared `json:"shared,omitempty"`
	// Override says that an override holds the class to that rate, and until when.
	Override string `json:"override,omitempty"`
	// Unplanned says why nothing is known but what the kernel does, "" where it is known.
	Unplanned string `json:"unplanned,omitempty"`
	// RateText says the rate where it is not known in bits.
	RateText string `json:"-"`
}

// Tried is a rule that does not match, and why.
type Tried struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// AckAnswer is what a pure TCP acknowledgement gets, by ack_class or, where that is not set, by what stands in the kernel nevertheless.
type AckAnswer struct {
	// Rule is "ack_class", or "" where the config has none.
	Rule    string       `json:"rule"`
	Class   string       `json:"class"`
	ClassID string       `json:"classid"`
	Rate    uint64       `json:"rate_bits_per_second,omitempty"`
	Kernel  KernelAnswer `json:"kernel"`
}

// Disagrees tells whether the kernel does otherwise, with packets or with acknowledgements, as far as it was asked.
func (e Explanation) Disagrees() bool {
	return e.Unplanned == "" && (!e.Kernel.Agrees && !e.Kernel.Unasked || e.Ack != nil && !e.Ack.Kernel.Agrees && !e.Ack.Kernel.Unasked)
}

// KernelAnswer is where the filters that stand now would send a packet.
type KernelAnswer struct {
	ClassID string `json:"classid"`
	Class   string `json:"class"`
	Filter  string `json:"filter"`
	Agrees  bool   `json:"agrees"`
	Note    string `json:"note,omitempty"`
	// Rate is what the kernel holds for that class.
	Rate uint64 `json:"rate_bits_per_second,omitempty"`
	// Unasked says that the kernel was not asked.
	Unasked bool `json:"unasked,omitempty"`
}

// Shared is who is in a class.
type Shared struct {
	Servers      int            `json:"servers"`
	Destinations int            `json:"destinations"`
	Roles        map[string]int `json:"roles"`
	Cabinets     map[string]int `json:"cabinets"`
	// Rest says that everybody is in it whom the inventory does not name.
	Rest bool `json:"rest,omitempty"`
}

// ExplainLines is the chain from each name to what the kernel does.
func ExplainLines(st screen.Style, answers []Explanation) []string {
	var lines []string
	for i, a := range answers {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, explainOne(st, a)...)
	}
	return lines
}

func explainOne(st screen.Style, a Explanation) []string {
	var lines []string
	say := func(what, text string) {
		lines = append(lines, st.Wrap(fmt.Sprintf("  %-8s %s", what, text), 11)...)
	}
	head := st.Strong(a.Address)
	if a.Destination != a.Address {
		head += " (" + a.Destination + ")"
	}
	lines = append(lines, head)
	if a.Unplanned != "" {
		say("wanted", a.Unplanned)
		say("kernel", standingText(st, a.Kernel))
		return lines
	}
	if a.Server == "" {
		say("owner", "none: the inventory does not name it")
	} else {
		where := "cabinet " + screen.OrUnknown(a.Cabinet)
		if a.Datacenter != "" {
			where += " of " + a.Datacenter
		}
		roles := "no role"
		if len(a.Roles) > 0 {
			roles = cmp.Or(map[bool]string{true: "role "}[len(a.Roles) == 1], "roles ") + strings.Join(a.Roles, ", ")
		}
		from := ""
		if a.File != "" {
			from = "; by " + a.Prefix + " in " + a.File
		}
		say("owner", a.Server+", "+where+", "+roles+from)
	}
	if a.Own {
		say("class", "none, it is this node's own address")
		say("kernel", kernelText(st, a.Kernel, a.ClassID, a.Rate))
		return lines
	}
	for _, t := range a.Tried {
		say("not", "rule "+t.Rule+": "+t.Reason)
	}
	if a.Rule == "" {
		say("rule", "none matches, so the default class")
	} else {
		text := a.Rule
		if a.Matches != "" {
			text += " matches: " + a.Matches
		}
		if a.RulePlace != "" {
			text += " (" + a.RulePlace + ")"
		}
		say("rule", text)
	}
	say("class", strings.TrimSpace(a.Class+" "+a.ClassID)+rateText(a))
	say("kernel", kernelText(st, a.Kernel, a.ClassID, a.Rate))
	if a.Ack != nil {
		by := "as all else"
		if a.Ack.Rule != "" {
			by = "by " + a.Ack.Rule + ", ahead of all rules"
		}
		say("acks", fmt.Sprintf("pure TCP acknowledgements: %s %s, %s", a.Ack.Class, a.Ack.ClassID, by))
		say("kernel", kernelText(st, a.Ack.Kernel, a.Ack.ClassID, a.Ack.Rate))
	}
	if a.Shared != nil {
		say("shared", sharedText(*a.Shared))
	}
	return lines
}

func rateText(a Explanation) string {
	if a.Override != "" {
		held := a.Override
		a.Override = ""
		return rateText(a) + " " + held
	}
	switch {
	case a.RateText != "":
		return ", " + a.RateText
	case a.Rate == 0:
		return ""
	case a.Ceil > a.Rate:
		return fmt.Sprintf(", rate %s, ceil %s", Held(a.Rate), Held(a.Ceil))
	}
	return ", rate " + Held(a.Rate)
}

// standingText says what the kernel does where there is nothing to hold it against.
func standingText(st screen.Style, k KernelAnswer) string {
	if k.Unasked {
		return st.Warn("not asked") + ": " + k.Note
	}
	var parts []string
	if k.ClassID != "" {
		parts = append(parts, strings.TrimSpace(k.Class+" "+k.ClassID)+" by "+k.Filter)
	}
	if k.Rate != 0 {
		parts = append(parts, "held to "+Held(k.Rate))
	}
	if k.Note != "" {
		parts = append(parts, k.Note)
	}
	return strings.Join(parts, ", ")
}

// kernelText says what the kernel does, and whether that is as wanted. The wanted rate is that of the class with that classid: another one,
// to which a wrong filter leads, has its own.
func kernelText(st screen.Style, k KernelAnswer, classid string, rate uint64) string {
	if k.Unasked {
		return st.Warn("not asked") + ": " + k.Note
	}
	var parts []string
	if k.ClassID != "" {
		parts = append(parts, strings.TrimSpace(k.Class+" "+k.ClassID)+" by "+k.Filter)
	}
	wrongRate := k.ClassID == classid && k.Rate != 0 && rate != 0 && k.Rate != rate
	switch {
	case wrongRate:
		parts = append(parts, st.Bad(fmt.Sprintf("WRONG RATE: it stands at %s", tc.BitRate(k.Rate))))
	case k.Rate != 0 && k.ClassID != classid:
		parts = append(parts, "held to "+Held(k.Rate))
	}
	if k.Note != "" {
		parts = append(parts, k.Note)
	}
	switch {
	case k.Agrees && wrongRate:
		parts = append(parts, "the class agrees")
	case k.Agrees:
		parts = append(parts, st.Good("agrees"))
	case k.Note != "":
		parts = append(parts, st.Bad("DISAGREES"))
	default:
		parts = append(parts, st.Bad("DISAGREES")+": run `bulkshaper plan` to see what is to change")
	}
	return strings.Join(parts, ", ")
}

func sharedText(s Shared) string {
	text := fmt.Sprintf("%s with %s", screen.Count(s.Servers, "server"), screen.Count(s.Destinations, "destination"))
	if s.Servers == 0 && s.Destinations > 0 {
		text = screen.Count(s.Destinations, "destination")
	}
	if s.Rest {
		text += ", and everybody whom the inventory does not name"
	}
	if len(s.Roles) > 0 {
		text += "; roles: " + counts(s.Roles, 6)
	}
	return text
}

// counts is the largest of many counts in words.
func counts(of map[string]int, most int) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, name := range names[:min(len(names), most)] {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	if more := len(names) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}
