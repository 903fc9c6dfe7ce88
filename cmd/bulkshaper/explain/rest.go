package explain

import (
	"context"
	"fmt"
	"net/netip"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
	"bulkshaper/shaper/config"
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
	// Files is what is the matter with them, a clause: "the files are broken".
	Files string
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
		return nil, fmt.Errorf("explain %q: while %s and no daemon answers, the name of a server cannot be looked up; give its address", dest, r.o.Files)
	}
	return []view.Explanation{{Destination: dest, Address: a.String(), Roles: []string{}, Unplanned: "not known: " + r.o.Files + ", and no daemon answers that could tell",
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
		return nil, fmt.Errorf("explain %q: neither an address nor a server of the inventory that the daemon holds while %s%s", dest, r.o.Files, remedy)
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
