package override

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bulkshaper/inventory"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/tc"
)

// Limits are what a class is held to.
type Limits struct {
	Name string
	// Parent is the class above by name, "" for the root.
	Parent     string
	Rate, Ceil tc.BitRate
}

// Rates are the classes of an interface as the config and the inventory give them.
type Rates struct {
	Interface string
	// Link is what percentages are of, 0 where that is unknown.
	Link    tc.BitRate
	Classes []Limits
}

// InForce is an override that is followed.
type InForce struct {
	Override
	// Configured is what the class has without it, Limits what it has with it.
	Configured, Limits Limits
}

// Refused is an override that cannot be followed.
type Refused struct {
	Override
	// Reason says why, and what to do.
	Reason inventory.Problem
}

// Apply tells which overrides of the interface can be followed, and what they make of the classes. All of them together have to keep
// the rules that the config has to keep: no rate over its ceil, no children over their parent. Where they do not, the older ones
// come first. The result is sorted by class.
func (r Rates) Apply(list []Override) (inForce []InForce, refused []Refused) {
	list = Of(list, r.Interface)
	slices.SortStableFunc(list, func(a, b Override) int { return a.Since.Compare(b.Since) })
	over := map[string]Limits{}
	var kept []Override
	for _, o := range list {
		limits, problem := r.limits(o)
		if problem != nil {
			refused = append(refused, Refused{o, *problem})
			continue
		}
		over[o.Class] = limits
		kept = append(kept, o)
	}
	if r.check(over) != nil {
		all := over
		over = map[string]Limits{}
		kept = slices.DeleteFunc(kept, func(o Override) bool {
			over[o.Class] = all[o.Class]
			problem := r.check(over)
			if problem != nil {
				refused = append(refused, Refused{o, *problem})
				delete(over, o.Class)
			}
			return problem != nil
		})
	}
	for _, o := range kept {
		inForce = append(inForce, InForce{o, *r.class(o.Class), over[o.Class]})
	}
	slices.SortFunc(inForce, func(a, b InForce) int { return strings.Compare(a.Class, b.Class) })
	return inForce, refused
}

func (r Rates) class(name string) *Limits {
	if i := slices.IndexFunc(r.Classes, func(l Limits) bool { return l.Name == name }); i >= 0 {
		return &r.Classes[i]
	}
	return nil
}

func problem(remedy, format string, args ...any) *inventory.Problem {
	return &inventory.Problem{Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// limits is what o makes of its class, looked at alone.
func (r Rates) limits(o Override) (Limits, *inventory.Problem) {
	class := r.class(o.Class)
	if class == nil {
		return Limits{}, r.unknown(o.Class)
	}
	result := *class
	for _, v := range []struct {
		rate config.Rate
		name string
		into *tc.BitRate
	}{{o.Rate, "rate", &result.Rate}, {o.Ceil, "ceil", &result.Ceil}} {
		if v.rate.IsZero() {
			continue
		}
		value, known := v.rate.Of(r.Link)
		switch {
		case !known:
			return Limits{}, problem("write it in mbit, or set link_rate", "%s %s of %s: the speed of %s is not known", v.name, v.rate, o.Class, r.Interface)
		case value == 0:
			return Limits{}, problem("give more", "%s %s of %s comes to less than 8bit", v.name, v.rate, o.Class)
		}
		*v.into = value
	}
	if !o.Ceil.IsZero() {
		return result, nil
	}
	// As in the config: the ceil is the rate where nothing else is said, so that "turn it down to" is what happens also to a class that
	// may borrow. But nobody gets above the ceil of the config without having said so.
	if result.Rate > class.Ceil {
		return Limits{}, problem(fmt.Sprintf("give ceil=%s as well if that is meant", result.Rate), "rate %s of class %s is over its ceil %s", result.Rate, o.Class, class.Ceil)
	}
	result.Ceil = result.Rate
	return result, nil
}

func (r Rates) unknown(name string) *inventory.Problem {
	if name == tc.ControlName {
		return problem("", "class %s is for ARP and neighbour discovery and keeps the configured rate of the default class", name)
	}
	var names []string
	for _, l := range r.Classes {
		names = append(names, l.Name)
	}
	remedy := "known: " + strings.Join(names, ", ")
	if near := config.Nearest(name, names); near != "" {
		remedy = "did you mean " + near + "?"
	}
	return problem(remedy, "class %q does not exist", name)
}

// check looks at all classes together, those in over with other limits. It gives the first problem.
func (r Rates) check(over map[string]Limits) *inventory.Problem {
	cfg := config.Config{}
	for _, l := range r.Classes {
		if o, ok := over[l.Name]; ok {
			l = o
		}
		cfg.Classes = append(cfg.Classes, config.Class{Name: l.Name, Parent: l.Parent, Rate: config.Rate{Fixed: l.Rate}, Ceil: config.Rate{Fixed: l.Ceil}})
	}
	problems := cfg.CheckRates(func(rate config.Rate) (tc.BitRate, bool) { return rate.Fixed, rate.Fixed != 0 })
	if len(problems) == 0 {
		return nil
	}
	problems[0].Remedy = "a class and those below it have to be turned down together, the lower ones first; raise one only where there is room above it"
	return &problems[0]
}

// Set is list with next in it, in the place of what there was for its class. The error is inventory.Problems where next, or another
// because of next, could not be followed: now, or when one of them ends before the others.
func (r Rates) Set(list []Override, next Override, now time.Time) ([]Override, error) {
	list = append(Without(Active(list, now), r.Interface, next.Class), next)
	if err := r.holds(list, now); err != nil {
		return nil, err
	}
	return list, nil
}

// Clear is list without the overrides of a class, or of all classes where class is "". It also gives what was cleared. The error is
// inventory.Problems where one that is left could not be followed any longer.
func (r Rates) Clear(list []Override, class string, now time.Time) (rest, cleared []Override, err error) {
	list = Active(list, now)
	rest = Without(list, r.Interface, class)
	for _, o := range Of(list, r.Interface) {
		if class == "" || o.Class == class {
			cleared = append(cleared, o)
		}
	}
	if class != "" && len(cleared) == 0 && r.class(class) == nil {
		return nil, nil, inventory.Problems{*r.unknown(class)}
	}
	if err := r.holds(rest, now); err != nil {
		return nil, nil, err
	}
	return rest, cleared, nil
}

// holds looks at now and at each moment at which one of list ends and others go on.
func (r Rates) holds(list []Override, now time.Time) error {
	moments := []time.Time{now}
	for _, o := range Of(list, r.Interface) {
		moments = append(moments, o.Until)
	}
	slices.SortFunc(moments, time.Time.Compare)
	for _, at := range moments {
		_, refused := r.Apply(Active(list, at))
		if len(refused) == 0 {
			continue
		}
		p := refused[0].Reason
		if at.After(now) {
			p.Message += fmt.Sprintf(", when another override ends at %s", at.Local().Format(time.DateTime))
			p.Remedy = "let them end together, or the ones of lower classes last"
		}
		p.Message = fmt.Sprintf("override %s: %s", refused[0].Override, p.Message)
		return inventory.Problems{p}
	}
	return nil
}
