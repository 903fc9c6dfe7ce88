package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// RestOptions is what there is to answer from while the files are broken.
type RestOptions struct {
	// Interface is the one that is meant, Classes are those of the config as far as it could be read.
	Interface string
	Classes   []config.Class
	// Find asks the daemon, and Status is what it says of itself; both nil where none answers.
	Find   func(ctx context.Context, dest string) (shaper.Finding, error)
	Status *shaper.Status
	// Kernel says that the kernel is to be asked.
	Kernel bool
}

// Rest answers while the files are broken: from the plan that the daemon holds, and without a daemon with what the kernel does.
type Rest struct {
	*standing
	o RestOptions
}

// NewRest reads the kernel.
func NewRest(ctx context.Context, o RestOptions) *Rest {
	if o.Status != nil {
		o.Interface = o.Status.Interface
	}
	r := &Rest{observe(ctx, o.Interface, o.Kernel), o}
	for _, c := range o.Classes {
		if c.ID != 0 {
			r.names[tc.MakeHandle(tc.Major, c.ID)] = c.Name
		}
	}
	if o.Status != nil {
		for _, c := range o.Status.Classes {
			if id, err := tc.ParseHandle(c.ClassID); err == nil {
				r.names[id] = c.Name
			}
		}
	}
	return r
}

// Explain answers for each address that dest stands for.
func (r *Rest) Explain(ctx context.Context, dest string) ([]view.Explanation, error) {
	a, ok, err := address(dest)
	switch {
	case err != nil:
		return nil, err
	case r.o.Find != nil:
		return r.held(ctx, dest)
	case !ok:
		return nil, fmt.Errorf("explain %q: while the files are broken and no daemon answers, the name of a server cannot be looked up; give its address", dest)
	}
	return []view.Explanation{{Destination: dest, Address: a.String(), Roles: []string{}, Unplanned: "not known: the files are broken, and no daemon answers that could tell",
		Kernel: r.where(a)}}, nil
}

// held is what the daemon holds, with what the kernel does.
func (r *Rest) held(ctx context.Context, dest string) ([]view.Explanation, error) {
	found, err := r.o.Find(ctx, dest)
	if err != nil {
		return nil, fmt.Errorf("explain %q: %w", dest, err)
	}
	if len(found.Answers) == 0 {
		remedy := ""
		if len(found.Matches) > 0 {
			remedy = fmt.Sprintf("; did you mean %s?", found.Matches[0].Server)
		}
		return nil, fmt.Errorf("explain %q: neither an address nor a server of the inventory that the daemon holds%s", dest, remedy)
	}
	var answers []view.Explanation
	for _, a := range found.Answers {
		e := view.Explanation{Destination: dest, Address: a.Address, Server: a.Server, Cabinet: a.Cabinet, Datacenter: a.Datacenter, Roles: a.Roles,
			Rule: a.Rule, Class: a.Class, ClassID: a.ClassID, Own: a.Own}
		for _, t := range a.Tried {
			e.Tried = append(e.Tried, view.Tried{Rule: t.Rule, Reason: t.Reason})
		}
		parsed, err := netip.ParseAddr(a.Address)
		if err != nil {
			return nil, fmt.Errorf("explain %q: the daemon's answer: %w", dest, err)
		}
		if e.Own {
			e.Kernel = view.KernelAnswer{Agrees: true, Note: "packets to this node itself do not leave by the interface"}
			answers = append(answers, e)
			continue
		}
		for _, c := range r.o.Status.Classes {
			if c.ClassID == a.ClassID {
				e.Rate, e.Ceil = c.Rate, c.Ceil
			}
		}
		want, err := tc.ParseHandle(a.ClassID)
		if err != nil {
			return nil, fmt.Errorf("explain %q: the daemon's answer: %w", dest, err)
		}
		e.Kernel = r.askKernel(parsed, want)
		answers = append(answers, e)
	}
	return answers, nil
}

// where is what the kernel does with a packet to a, wanted or not.
func (r *Rest) where(a netip.Addr) view.KernelAnswer {
	packet, protocol := u32.Packet(a)
	answer := r.askKernelOnce(packet, protocol, tc.Unspec)
	if answer.ClassID != "" {
		id, err := tc.ParseHandle(answer.ClassID)
		if err == nil && answer.Class == "" {
			answer.Class = "class"
			if r.names[id] != "" {
				answer.Class = r.names[id]
			}
		}
	}
	return answer
}

// MembersOf is what the kernel's filters lead to a class, given by its name or classid.
func (r *Rest) MembersOf(class string) (view.Members, error) {
	id, err := tc.ParseHandle(class)
	for known, name := range r.names {
		if name == class {
			id, err = known, nil
		}
	}
	if err != nil {
		return view.Members{}, fmt.Errorf("explain --class %q: while the files are broken no such class is known; give its classid, like 1:20", class)
	}
	m := view.Members{Class: "class", ClassID: id.String(), Standing: uint64(r.rates[id]), Rules: map[string]int{}, Destinations: []view.Member{},
		Checked: view.Checked{Note: r.unasked, Disagree: []view.Disagree{}}, Unplanned: "this is what its filters lead here: the files are broken"}
	if name := r.names[id]; name != "" {
		m.Class = name
	}
	seen := map[netip.Prefix]bool{}
	for _, f := range r.state.Filters {
		_, own := plan.OwnPref(f.Pref)
		prefix, ok := f.Destination()
		if !own || !ok || !f.IsNode() || f.Link != 0 || f.ClassID != id || seen[prefix] {
			continue
		}
		seen[prefix] = true
		m.Destinations = append(m.Destinations, view.Member{Prefix: prefix.String(), Roles: []string{}})
	}
	slices.SortFunc(m.Destinations, func(a, b view.Member) int { return strings.Compare(a.Prefix, b.Prefix) })
	m.Shared.Destinations = len(m.Destinations)
	if root, ok := r.state.RootQdisc(); ok && id == tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default)) {
		m.Shared.Rest = true
	}
	return m, nil
}
