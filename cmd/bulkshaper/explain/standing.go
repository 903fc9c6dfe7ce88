package explain

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"go.uber.org/zap"

	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/inventory"
	"bulkshaper/shaper/diff"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/plan"
	"bulkshaper/shaper/tc"
	"bulkshaper/shaper/u32"
)

// standing is what stands in the kernel.
type standing struct {
	iface   string
	state   tc.State
	filters *u32.Classifier
	rates   map[tc.Handle]tc.BitRate
	// names are those of the classes, as far as they are known.
	names map[tc.Handle]string
	// unasked says why the kernel was not asked, unaskedErr is the error of that, nil where nobody wanted to.
	unasked    string
	unaskedErr error
}

// observe reads the kernel, unless that is not wanted.
func observe(ctx context.Context, iface string, wanted bool) *standing {
	s := &standing{iface: iface, unasked: "--no-kernel was given", names: map[tc.Handle]string{tc.ControlClass: tc.ControlName}}
	if !wanted {
		return s
	}
	s.unasked = ""
	if s.unaskedErr = s.read(ctx); s.unaskedErr != nil {
		s.unasked = s.unaskedErr.Error()
	}
	return s
}

func (s *standing) read(ctx context.Context) error {
	if s.iface == "" {
		return inventory.Problems{{Message: "no interface given", Remedy: "set `interface` in the config or give --interface"}}
	}
	k, err := kernel.Open(kernel.Options{Interface: s.iface, Log: zap.NewNop()})
	if err != nil {
		return err
	}
	defer k.Close()
	if s.state, err = k.Observe(ctx); err != nil {
		return err
	}
	s.filters, s.rates = u32.NewClassifier(s.state.Filters), map[tc.Handle]tc.BitRate{}
	for _, c := range s.state.Classes {
		s.rates[c.ID] = c.Rate
	}
	return nil
}

// Unasked is why the kernel could not be asked, nil where it was, or nobody wanted to.
func (s *standing) Unasked() error { return s.unaskedErr }

// className is a class by name and id.
func (s *standing) className(id tc.Handle) string {
	if name, ok := s.names[id]; ok {
		return name + " " + id.String()
	}
	return "class " + id.String() + " (not in the plan)"
}

// askKernel sends a packet to a through the filters as they were read from the kernel.
func (s *standing) askKernel(a netip.Addr, want tc.Handle) view.KernelAnswer {
	packet, protocol := u32.Packet(a)
	return s.askKernelFor(packet, protocol, want)
}

// askKernelFor sends packet, and where packets may leave with a VLAN tag one with each tag: if one of those goes elsewhere, that is the answer.
func (s *standing) askKernelFor(packet []byte, protocol tc.Protocol, want tc.Handle) view.KernelAnswer {
	answer := s.askKernelOnce(packet, protocol, want)
	for _, tag := range s.state.Link.Tags {
		if tagged := s.askKernelOnce(packet, tag, want); answer.Agrees && !tagged.Agrees {
			tagged.Note = strings.TrimSuffix(fmt.Sprintf("that is behind a tag of %s, %s", tag, tagged.Note), ", ")
			return tagged
		}
	}
	return answer
}

func (s *standing) askKernelOnce(packet []byte, protocol tc.Protocol, want tc.Handle) view.KernelAnswer {
	if s.unasked != "" {
		return view.KernelAnswer{Note: s.unasked, Unasked: true}
	}
	root, _ := s.state.RootQdisc()
	iface := s.iface
	if diff.Ownership(s.state).Kind != diff.Ours {
		return view.KernelAnswer{Note: fmt.Sprintf("%s is not shaped by us: its root qdisc is %s %s", iface, root.Kind, root.Handle)}
	}
	result := s.filters.Classify(packet, protocol)
	if result.Unknown != "" {
		return view.KernelAnswer{Note: "cannot tell: " + result.Unknown}
	}
	class := tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default))
	answer := view.KernelAnswer{Filter: noFilter}
	if result.Matched {
		class, answer.Filter = result.ClassID, result.Filter.Ident()
	}
	if !standsAsLeaf(s.state, class) {
		answer.Note = s.className(class) + " does not stand as a leaf, so the default class is taken"
		class = tc.MakeHandle(root.Handle.Major(), uint16(root.HTB.Default))
	}
	if _, ours := plan.OwnPref(result.Filter.Pref); result.Matched && !ours && class != want {
		answer.Note = fmt.Sprintf("that filter is not ours and comes first: if it should not, tc filter del dev %s parent %s pref %d", iface, root.Handle, result.Filter.Pref)
	}
	answer.ClassID, answer.Class, answer.Agrees = class.String(), s.names[class], class == want
	answer.Rate = uint64(s.rates[class])
	return answer
}

// noFilter stands where no filter matches.
const noFilter = "no filter, so the default class"

func standsAsLeaf(state tc.State, id tc.Handle) bool {
	found := false
	for _, c := range state.Classes {
		if c.Parent == id {
			return false
		}
		found = found || c.ID == id
	}
	return found
}
