package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	gotc "github.com/florianl/go-tc"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/zap"

	"bulkshaper/shaper/tc"
)

// Options say whose traffic control it is.
type Options struct {
	// Namespace is a descriptor of the network namespace, 0 for that of the process. To enter another one takes CAP_SYS_ADMIN.
	Namespace int
	// Interface is the name, or an alternative name, of the interface. It need not exist yet.
	Interface string
	Log       *zap.Logger
}

// Kernel is the traffic control of one interface. Its methods may be called concurrently.
type Kernel struct {
	name      string
	namespace int
	log       *zap.Logger

	links              *netlink.Handle
	read, write, stats *conn
	dumps              dumps
	encoder            *gotc.Tc  // guarded by write.mu
	listener           *listener // guarded by read.mu
	// ports are those of our own sockets, by which our own changes are told from others'.
	ports map[uint32]bool
	// autoLeaf is what the probe said, "" until there was something to probe. Guarded by read.mu.
	autoLeaf string
	// seen is nil before the first reading. Guarded by read.mu.
	seen *seen
	// applied is set once something was changed by us that was not read yet.
	applied atomic.Bool
	seed    maphash.Seed

	closed context.Context
	cancel context.CancelFunc
	watch  sync.WaitGroup
}

// Open makes the sockets. It needs no privilege; the interface need not exist.
func Open(opts Options) (*Kernel, error) {
	if opts.Interface == "" {
		return nil, errors.New("open kernel: no interface is named")
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	k := &Kernel{name: opts.Interface, namespace: opts.Namespace, log: opts.Log, seed: maphash.MakeSeed()}
	k.closed, k.cancel = context.WithCancel(context.Background())
	if err := k.open(); err != nil {
		k.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return k, nil
}

func (k *Kernel) open() error {
	var err error
	for _, c := range []**conn{&k.read, &k.write, &k.stats} {
		if *c, err = openConn(k.handle()); err != nil {
			return err
		}
		(*c).dumps = &k.dumps
	}
	if k.listener, err = k.openListener(); err != nil {
		return err
	}
	if k.links, err = netlink.NewHandleAt(k.handle(), socketProtocol); err != nil {
		return err
	}
	if k.encoder, err = openEncoder(k.namespace); err != nil {
		return err
	}
	// go-tc does not tell its socket's port, so those of the whole process are taken.
	k.ports = socketPorts()
	for _, c := range []*conn{k.read, k.write, k.stats} {
		k.ports[c.port] = true
	}
	return nil
}

// handle is the namespace in the library's words: netns.None is that of the process.
func (k *Kernel) handle() netns.NsHandle {
	if k.namespace == 0 {
		return netns.None()
	}
	return netns.NsHandle(k.namespace)
}

// Close ends all watches, waits for calls that are under way and closes the sockets. What stands in the kernel stays.
func (k *Kernel) Close() error {
	k.cancel()
	k.watch.Wait()
	for _, c := range []*conn{k.read, k.write, k.stats} {
		if c != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.close()
		}
	}
	if k.listener != nil {
		k.listener.close()
		k.listener = nil
	}
	if k.links != nil {
		k.links.Close()
	}
	if k.encoder == nil {
		return nil
	}
	err := k.encoder.Close()
	k.encoder = nil
	return err
}

// link finds the interface by its name, each time anew: the index changes when it is made again. The caller holds the lock of
// a conn, so that Close waits for it.
func (k *Kernel) link() (netlink.Link, error) {
	if k.closed.Err() != nil {
		return nil, errClosed
	}
	link, err := k.links.LinkByName(k.name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("%w: %s", tc.ErrNoInterface, k.name)
	case err != nil:
		return nil, fmt.Errorf("find interface %s: %w", k.name, err)
	}
	return link, nil
}
