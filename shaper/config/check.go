package config

import (
	"fmt"
	"strconv"
	"strings"

	"bulkshaper/inventory"
	"bulkshaper/shaper/tc"
)

// maxDepth is how many classes may stand below one another: TC_HTB_MAXDEPTH (net/sched/sch_htb.c).
const maxDepth = 8

// check finds what is wrong with the whole, and not at one place.
func (d *decoder) check(c *Config) {
	if c.Interface == "" && !d.hasInterface && !d.reported("interface") {
		d.addAt(inventory.Problem{File: c.File}, "write interface: eth1, or give --interface", "no interface is given")
	}
	if d.unsure {
		return
	}
	d.checkClasses(c)
	d.checkRules(c)
	d.problems = append(d.problems, c.checkWrittenRates()...)
}

// reported tells whether something was found wrong with a setting.
func (d *decoder) reported(yaml string) bool {
	place, ok := d.places[yaml]
	if !ok {
		return false
	}
	for _, p := range d.problems {
		if p.File == place.File && p.Line == place.Line && p.Column == place.Column {
			return true
		}
	}
	return false
}

func (d *decoder) checkClasses(c *Config) {
	byID := map[uint16]Class{}
	byName := map[string]Class{}
	for _, class := range c.Classes {
		if other, taken := byID[class.ID]; taken && class.ID != 0 {
			d.addAt(class.Place, "give it an id of its own", "class %s has the id %x of class %s", class.Name, class.ID, other.Name)
		}
		byID[class.ID] = class
		if other, taken := byName[strings.ToLower(class.Name)]; taken {
			d.addAt(class.Place, "rename one of the two", "class %s and class %s differ only in case", class.Name, other.Name)
		}
		byName[strings.ToLower(class.Name)] = class
	}
	for _, class := range c.Classes {
		switch depth, cyclic := c.depth(class); {
		case class.Parent == "":
		case c.class(class.Parent) == nil:
			d.addAt(class.Place, didYouMean(class.Parent, c.classNames()), "class %s: parent %q does not exist", class.Name, class.Parent)
		case cyclic:
			d.addAt(class.Place, "leave out the parent of one of them", "class %s is its own ancestor", class.Name)
		case depth > maxDepth:
			d.addAt(class.Place, "give it a parent nearer to the root", "class %s is %d classes deep; HTB has at most %d", class.Name, depth, maxDepth)
		}
		if c.IsInner(class.Name) && class.Leaf != (Leaf{Kind: LeafAuto}) {
			d.addAt(class.Place, "give it to the children", "class %s has children and so no leaf", class.Name)
		}
	}
	d.checkTarget(c, c.DefaultClass, d.places["default_class"], "default_class")
	if c.AckClass != "" {
		d.checkTarget(c, c.AckClass, d.places["ack_class"], "ack_class")
	}
}

func (d *decoder) checkRules(c *Config) {
	names := map[string]bool{}
	var stranded []string // packaged rules that the classes of the file leave without theirs
	for _, rule := range c.Rules {
		what := "rule " + rule.Name
		if rule.Place.Line == 0 {
			what = "packaged rule " + rule.Name
			if rule.Class != "" && c.class(rule.Class) == nil {
				stranded = append(stranded, rule.Name)
				continue
			}
		}
		if rule.Name != "" && names[strings.ToLower(rule.Name)] {
			d.addAt(rule.Place, "rename one of the two", "two rules are named %s", rule.Name)
		}
		names[strings.ToLower(rule.Name)] = true
		if rule.Class != "" {
			d.checkTarget(c, rule.Class, rule.Place, what)
		}
	}
	if len(stranded) > 0 {
		place := d.places["classes"]
		if place.File == "" {
			place.File = c.File
		}
		d.addAt(place, "give rules: too", "the packaged rules %s lead to classes that are not among these", strings.Join(stranded, ", "))
	}
}

// checkTarget makes sure that packets can be sent to a class: the kernel takes a filter to a class that is missing or inner,
// and gives its packets to the default class.
func (d *decoder) checkTarget(c *Config, class string, place inventory.Problem, what string) {
	switch {
	case d.reported(what): // of a setting something is wrong already
	case c.class(class) == nil:
		if place.File == "" {
			place.File = c.File // the packaged rules and default_class do not fit the classes of the file
		}
		d.addAt(place, didYouMean(class, c.leafNames()), "%s: class %q does not exist", what, class)
	case c.IsInner(class):
		d.addAt(place, "name one of its children", "%s: class %s has children, and only those can be sent to", what, class)
	}
}

func (c *Config) class(name string) *Class {
	for i := range c.Classes {
		if c.Classes[i].Name == name {
			return &c.Classes[i]
		}
	}
	return nil
}

// IsInner tells whether the class is the parent of others.
func (c *Config) IsInner(name string) bool {
	for _, class := range c.Classes {
		if class.Parent == name {
			return true
		}
	}
	return false
}

func (c *Config) classNames() []string {
	var names []string
	for _, class := range c.Classes {
		names = append(names, class.Name)
	}
	return names
}

func (c *Config) leafNames() []string {
	var names []string
	for _, class := range c.Classes {
		if !c.IsInner(class.Name) {
			names = append(names, class.Name)
		}
	}
	return names
}

// depth counts the classes from the root to class. It is cyclic where class is its own ancestor.
func (c *Config) depth(class Class) (depth int, cyclic bool) {
	depth = 1
	for at := c.class(class.Parent); at != nil && depth <= len(c.Classes); at = c.class(at.Parent) {
		depth++
		if at.Name == class.Name {
			return depth, true
		}
	}
	return depth, false
}

// checkWrittenRates compares the rates that can be compared without knowing the link: fixed ones among each other, and
// percentages among each other.
func (c *Config) checkWrittenRates() inventory.Problems {
	problems := c.CheckRates(func(r Rate) (tc.BitRate, bool) { return r.Of(c.LinkRate) })
	if c.LinkRate != 0 {
		return problems
	}
	onlyPercent := func(r Rate) (tc.BitRate, bool) {
		if r.Percent == 0 {
			return 0, false
		}
		return r.Of(tc.MaxBitRate)
	}
	inPercent := func(v tc.BitRate) string {
		return strconv.FormatFloat(float64(v)/float64(tc.MaxBitRate/100), 'f', -1, 64) + "%"
	}
	return append(problems, c.checkRates(onlyPercent, inPercent)...)
}

// CheckRates finds rates over their ceil, and children that together are promised more than their parent may send. The kernel
// accepts both. Rates whose value is not known are left out.
func (c *Config) CheckRates(value func(Rate) (tc.BitRate, bool)) inventory.Problems {
	return c.checkRates(value, tc.BitRate.String)
}

func (c *Config) checkRates(value func(Rate) (tc.BitRate, bool), print func(tc.BitRate) string) inventory.Problems {
	var problems inventory.Problems
	add := func(class Class, remedy, format string, args ...any) {
		p := class.Place
		p.Message, p.Remedy = fmt.Sprintf(format, args...), remedy
		problems = append(problems, p)
	}
	// written is the rate as it was written, with what that comes to.
	written := func(r Rate, v tc.BitRate) string {
		if r.String() == print(v) {
			return r.String()
		}
		return fmt.Sprintf("%s (%s)", r, print(v))
	}
	type sum struct {
		rate     tc.BitRate
		children int
	}
	children := map[string]sum{}
	for _, class := range c.Classes {
		rate, known := value(class.Rate)
		if ceil, ok := value(class.Ceil); known && ok && rate > ceil {
			add(class, "lower the rate or raise the ceil", "class %s: rate %s is over its ceil %s", class.Name, written(class.Rate, rate), written(class.Ceil, ceil))
		}
		if s := children[class.Parent]; class.Parent != "" && known {
			children[class.Parent] = sum{s.rate + rate, s.children + 1}
		}
	}
	for _, class := range c.Classes {
		most := class.Ceil
		if most.IsZero() {
			most = class.Rate
		}
		ceil, known := value(most)
		if s := children[class.Name]; known && s.rate > ceil {
			add(class, "lower theirs or raise its ceil", "class %s: the rates of its children (%d) come to %s, over its ceil %s", class.Name, s.children, print(s.rate), written(most, ceil))
		}
	}
	return problems
}
