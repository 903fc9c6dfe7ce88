package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"bulkshaper/shaper/kernel/wire"
	"bulkshaper/shaper/tc"
)

// Watch tells of changes to the interface, its addresses and its traffic control until ctx ends or the kernel is closed; then
// the channel is closed. It follows the interface through removal, re-creation and renaming. Events that are not taken from
// the channel are put together, one a kind, so neither the kernel nor the caller is ever held up. tc.EventLost says that the
// kernel had to drop notifications: then everything has to be read.
func (k *Kernel) Watch(ctx context.Context) (<-chan tc.Event, error) {
	socket, err := k.subscribe()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", k.name, err)
	}
	// The socket listens already: what happens to the interface after this lookup is heard.
	index, err := k.index()
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("watch %s: %w", k.name, err)
	}
	return k.follow(ctx, socket, index), nil
}

// subscribe opens a socket that listens from now on.
func (k *Kernel) subscribe() (*nl.NetlinkSocket, error) {
	if k.closed.Err() != nil {
		return nil, errClosed
	}
	socket, err := nl.SubscribeAt(k.handle(), netns.None(), socketProtocol,
		unix.RTNLGRP_LINK, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, err
	}
	enlarge(socket.GetFd())
	return socket, nil
}

// follow makes events of what a socket hears of the interface that has the index now.
func (k *Kernel) follow(ctx context.Context, socket *nl.NetlinkSocket, index int) <-chan tc.Event {
	w := &watcher{name: k.name, index: index, find: k.index, ports: k.ports, ready: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(k.closed, cancel)
	context.AfterFunc(ctx, socket.Close)
	events := make(chan tc.Event)
	k.watch.Go(func() {
		defer cancel()
		defer stop()
		w.receive(socket)
	})
	k.watch.Go(func() { w.deliver(ctx, events) })
	return events
}

// index is the interface's, 0 while there is none.
func (k *Kernel) index() (int, error) {
	k.read.mu.Lock()
	defer k.read.mu.Unlock()
	link, err := k.link()
	if errors.Is(err, tc.ErrNoInterface) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return link.Attrs().Index, nil
}

// watcher turns notifications into events.
type watcher struct {
	name  string
	index int // of the interface, 0 while there is none
	find  func() (int, error)
	ports map[uint32]bool
	// changers has the names of those who change things; receive's alone.
	changers changers
	// congested is true from a loss until the socket was read empty. In between the kernel drops notifications and says nothing of it, however
	// much room there is again: the loss has to be told a second time. receive's alone.
	congested bool

	mu      sync.Mutex
	pending []tc.Event // one a kind at most
	ready   chan struct{}
	ended   chan struct{}
}

// receive reads the socket until it is closed.
func (w *watcher) receive(socket *nl.NetlinkSocket) {
	defer close(w.ended)
	for w.receiveOnce(socket) {
	}
}

// receiveOnce waits for the next datagram and tells what it says; false once the socket is closed.
func (w *watcher) receiveOnce(socket *nl.NetlinkSocket) bool {
	messages, from, err := socket.Receive()
	switch {
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINVAL):
		w.lose()
		w.congested = true
	case errors.Is(err, unix.EINTR):
		return true
	case err != nil:
		return false
	}
	for _, m := range messages {
		if from.Pid == 0 {
			w.notice(wire.Message{Header: wire.Header{Type: m.Header.Type, Seq: m.Header.Seq, Port: m.Header.Pid}, Payload: m.Data})
		}
	}
	if w.congested && drained(socket) {
		w.congested = false
		w.lose()
	}
	return true
}

// lose tells that notifications were dropped. It may be another interface by now.
func (w *watcher) lose() {
	if index, err := w.find(); err == nil {
		w.index = index
	}
	w.add(tc.EventLost, false, "")
}

// drained says that nothing waits in the socket.
func drained(socket *nl.NetlinkSocket) bool {
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(socket.GetFd()), Events: unix.POLLIN}}, 0)
	return err == nil && ready == 0
}

// notice adds the event that a notification is, if it is about the interface.
func (w *watcher) notice(m wire.Message) {
	own := m.Port != 0 && w.ports[m.Port]
	switch m.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		w.noticeLink(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if index, err := wire.AddressIndex(m.Payload); err == nil && index == w.index {
			w.add(tc.EventAddress, own, "")
		}
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC, unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS, unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER:
		o, err := wire.ParseObject(m.Payload)
		if err != nil || o.Index != w.index {
			return
		}
		by := ""
		if !own {
			by = w.changers.name(m.Port)
		}
		switch m.Type {
		case unix.RTM_NEWQDISC, unix.RTM_DELQDISC:
			w.add(tc.EventQdisc, own, by)
		case unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS:
			w.add(tc.EventClass, own, by)
		default:
			w.add(tc.EventFilter, own, by)
		}
	}
}

// noticeLink follows the interface by its name and its index: it may be removed, made again, renamed away or renamed to.
func (w *watcher) noticeLink(m wire.Message) {
	link, err := wire.ParseLink(m.Payload)
	if err != nil {
		w.add(tc.EventLost, false, "")
		return
	}
	if link.Kind == "vlan" && link.On != 0 && link.Index != w.index && w.index != 0 {
		// It may stand on the interface, or on what stands on it. That a bridge begins or ends to know of VLANs, which is rare, is found by the
		// periodic reading: what bridges say of themselves is mostly something else.
		w.add(tc.EventLink, false, "")
	}
	named := link.Name == w.name || slices.Contains(link.AltNames, w.name)
	switch {
	case m.Type == unix.RTM_DELLINK && link.Index == w.index:
		// A bridge that lets the interface go says so with the same message, of another family.
		if link.Family == unix.AF_UNSPEC {
			w.index = 0
		}
	case m.Type == unix.RTM_DELLINK:
		return
	case named:
		w.index = link.Index
	case link.Index == w.index && link.Name != "":
		w.index = 0
	default:
		return
	}
	w.add(tc.EventLink, false, "")
}

// add puts an event to those that wait: an own one and a foreign one of a kind are a foreign one, of two foreign ones the later maker counts.
func (w *watcher) add(kind tc.EventKind, own bool, by string) {
	w.mu.Lock()
	i := slices.IndexFunc(w.pending, func(e tc.Event) bool { return e.Kind == kind })
	if i < 0 {
		w.pending = append(w.pending, tc.Event{Kind: kind, Own: own, By: by})
	} else {
		w.pending[i].Own = w.pending[i].Own && own
		w.pending[i].By = cmp.Or(by, w.pending[i].By)
	}
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// take removes the event that waits longest.
func (w *watcher) take() (tc.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 {
		return tc.Event{}, false
	}
	e := w.pending[0]
	w.pending = slices.Delete(w.pending, 0, 1)
	return e, true
}

// deliver hands events to the caller.
func (w *watcher) deliver(ctx context.Context, events chan<- tc.Event) {
	defer close(events)
	for {
		e, ok := w.take()
		if !ok {
			select {
			case <-w.ready:
				continue
			case <-ctx.Done():
			case <-w.ended:
			}
			return
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return
		}
	}
}
