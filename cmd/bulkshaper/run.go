package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"bulkshaper/cmd/bulkshaper/ask"
	"bulkshaper/inventory"
	"bulkshaper/inventory/watch"
	"bulkshaper/metrics"
	"bulkshaper/shaper"
	"bulkshaper/shaper/claim"
	"bulkshaper/shaper/confirm"
	"bulkshaper/shaper/kernel"
	"bulkshaper/shaper/override"
	"bulkshaper/shaper/runfile"
	"bulkshaper/shaper/tc"
)

func runCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "The daemon: keep this node shaped as config and inventory say",
		Long: `Shapes the interface, follows config and inventory as they are edited, repairs what others change, and serves metrics.
SIGHUP reads the files again. When it ends, the shaping stays; only ` + "`bulkshaper clear`" + ` removes it.`,
		Example: "  bulkshaper run --config /etc/bulkshaper/config.yaml",
		Args:    cobra.NoArgs,
	}
	flags := addInputFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var end ending
		err := end.within(c.Context(), endPatience, func() error { return serve(c.Context(), flags, &end) })
		var late *lateError
		switch {
		case errors.As(err, &late) && end.logged():
			return &codedError{exitFailed, nil} // it is in the log; stderr may be what hangs
		case c.Context().Err() != nil && errors.Is(err, context.Canceled):
			return nil // told to stop, whether at work or still reading files
		case errors.Is(err, tc.ErrPermission) && os.Getenv("NOTIFY_SOCKET") != "":
			return &codedError{exitNoPermission, err}
		}
		return err
	}
	return c
}

// serve wires the daemon together: files and their watch, the kernel, the loop, the metrics, the service manager.
func serve(ctx context.Context, flags *inputFlags, end *ending) error {
	started := time.Now()
	collectOften()
	if err := kernel.Permitted(); err != nil {
		return err // now, and not when there is something to change
	}
	input, files, err := flags.load(ctx)
	if err != nil {
		return err
	}
	cfg := input.Config
	if err := needInterface(cfg); err != nil {
		return err
	}
	log, err := newLogger(cfg.Log, os.Stderr)
	if err != nil {
		return wrong(err)
	}
	end.logTo(log)
	defer end.closing("log", func() { _ = log.Sync() })
	folder, err := ownRunFolder(cfg.RunDir, log)
	if err != nil {
		return err
	}
	defer end.closing("run folder", func() { _ = folder.Close() })
	claimed, err := claim.Take(cfg.Interface)
	var held *claim.HeldError
	switch {
	case errors.As(err, &held):
		return err
	case err != nil:
		log.Warn("whether another daemon shapes the interface cannot be found out", zap.Error(err))
	default:
		defer end.closing("claim", func() { _ = claimed.Close() })
	}
	k, err := kernel.Open(kernel.Options{Interface: cfg.Interface, Log: log.Named("kernel")})
	if err != nil {
		return err
	}
	defer end.closing("kernel", func() { _ = k.Close() })

	registry := prometheus.NewRegistry()
	watcher := watch.New(files.Folders, watch.Options{Debounce: cfg.Debounce, Rescan: cfg.Rescan, Plain: files.Plain, Idle: files.Idle, Log: log.Named("watch")})
	trim := trimLater()
	defer trim.Stop()
	notifier := newSystemd()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	fileEvents, reloads := make(chan struct{}, 1), make(chan struct{}, 1)

	overrides := watch.New(func() []string { return []string{cfg.RunDir} }, watch.Options{Debounce: overrideDebounce, Rescan: overrideRescan, Log: log.Named("watch")})
	overrideEvents := make(chan struct{}, 1)
	history := openHistory(cfg.RunDir, log)

	var unserved atomic.Pointer[string]
	unserved.Store(new(string))
	lockedOut := metrics.WatchWebConfig(cfg.WebConfig)
	loop := shaper.New(shaper.Options{
		Kernel: k, Inputs: &watchedFiles{Files: files, watcher: watcher, trim: trim}, Recorder: metrics.NewRecorder(registry), Notifier: notifier, Log: log,
		Hostname: hostname(), Files: fileEvents, Reload: reloads,
		Overrides: override.Store{Dir: cfg.RunDir}, OverridesChanged: overrideEvents, History: history,
		Unserved: func() string { return cmp.Or(lockedOut(), *unserved.Load()) },
		Hold:     func() string { return untilConfirmed(confirm.Place{Dir: cfg.RunDir, Interface: cfg.Interface}) },
	}, input)
	registry.MustRegister(metrics.NewCollector(loop), buildInfo(), collectors.NewGoCollector(), metrics.NewProcessCollector(started),
		metrics.NewDumpsCollector(k.Dumps))

	told := ctx
	group, ctx := errgroup.WithContext(ctx)
	begin := func(part string, run func() error) {
		ended := end.part(part)
		group.Go(func() error { defer ended(); return run() })
	}
	begin("last word", func() error { lastWord(ctx, told, cfg.Interface, log); return nil })
	begin("loop", func() error { return ended(ctx, "loop", loop.Run(ctx)) })
	begin("watch", func() error { return ended(ctx, "watch", watcher.Run(ctx)) })
	group.Go(func() error { forward(ctx, watcher.C(), fileEvents, func() {}); return nil })
	begin("watch of the run folder", func() error { return ended(ctx, "watch of the run folder", overrides.Run(ctx)) })
	group.Go(func() error { forward(ctx, overrides.C(), overrideEvents, func() {}); return nil })
	begin("history", func() error { history.Keep(ctx, cfg.RunDir, log); return nil })
	begin("reload", func() error { forward(ctx, hup, reloads, watcher.Everything); return nil })
	begin("watchdog", func() error { notifier.watchdog(ctx, loop.Heartbeat); return nil })
	begin("service manager", func() error { notifier.deliver(ctx); return nil })
	meter := shaper.NewMeter(loop.Stats)
	begin("meter", func() error { meter.Run(ctx); return nil })
	handler := metrics.NewHandler(metrics.HandlerOptions{
		Gatherer: registry, Source: loop, Meter: meter, Ready: func() error { return readyError(notifier, loop.Snapshot()) }, Healthy: healthy(loop), History: history.Events, Oracle: loop, Log: log, Version: version(),
	})
	for part, where := range map[string]metrics.ServeOptions{
		"HTTP":   {Listen: cfg.Listen, WebConfig: cfg.WebConfig},
		"socket": {Socket: filepath.Join(cfg.RunDir, ask.SocketName)},
	} {
		where.Handler, where.Log = handler, log.Named("http")
		note := func(string) {}
		if where.Listen != "" {
			note = func(why string) { unserved.Store(&why) }
		}
		begin(part, func() error { answer(ctx, where, note); return nil })
	}
	return group.Wait()
}

// lastWord logs that the daemon was told to stop, which is the end of told; of ctx it is not, where a part ended with an error, which is said.
func lastWord(ctx, told context.Context, iface string, log *zap.Logger) {
	<-ctx.Done()
	if told.Err() != nil {
		log.Info("told to stop; the shaping stays", zap.String("interface", iface), zap.NamedError("because", context.Cause(told)))
	}
}

// ownRunFolder makes the run folder, and sees to it that no other daemon uses it. Without one that can be written, shaping goes on: it is
// asked by HTTP then.
func ownRunFolder(dir string, log *zap.Logger) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		log.Warn("the run folder cannot be made", zap.Error(err))
		return io.NopCloser(nil), nil
	}
	if err := runfile.Check(dir); err != nil {
		log.Warn("run folder", zap.Error(err))
	}
	folder, err := runfile.Own(dir)
	var used *runfile.InUseError
	switch {
	case errors.As(err, &used):
		return nil, err
	case err != nil:
		log.Warn("whether another daemon uses the run folder cannot be found out", zap.Error(err))
		return io.NopCloser(nil), nil
	}
	return folder, nil
}

const (
	// overrideDebounce gathers what one writing of the run folder's files makes of events, overrideRescan is for a folder that cannot be
	// watched.
	overrideDebounce = 10 * time.Millisecond
	overrideRescan   = 10 * time.Second
)

// openHistory goes on with what was kept in the run folder.
func openHistory(dir string, log *zap.Logger) *shaper.History {
	events, err := shaper.ReadHistory(dir)
	if err != nil {
		log.Warn("the history begins anew", zap.Error(err))
	}
	return shaper.NewHistory(events...)
}

// watchedFiles reads what changed where the watcher knows that, else everything. Then it has what the reading names watched, too: an
// edit of the config may lead to other folders.
type watchedFiles struct {
	*shaper.Files
	watcher *watch.Watcher
	last    *inventory.Inventory
	trim    *time.Timer
}

func (f *watchedFiles) Load(ctx context.Context) (shaper.Input, error) {
	before := allocated()
	input, err := f.read(ctx)
	if err == nil && input.Inventory != f.last || allocated()-before > trimFrom {
		f.last = input.Inventory
		f.trim.Reset(trimAfter)
	}
	return input, err
}

func (f *watchedFiles) read(ctx context.Context) (shaper.Input, error) {
	if paths, all := f.watcher.Changes(); !all {
		if input, done, err := f.LoadChanged(ctx, paths); done || err != nil {
			return input, err
		}
	}
	defer f.watcher.Again()
	return f.Files.Load(ctx)
}

// A port that was taken, or a run folder that was full, is tried again after answerFirst, and then ever more slowly down to answerAgain.
const (
	answerFirst = 500 * time.Millisecond
	answerAgain = 10 * time.Second
)

// answer serves until ctx ends. Shaping is worth more than being asked about it: what cannot be served is told once and
// tried again. note is told why not, and "" once it is served.
func answer(ctx context.Context, where metrics.ServeOptions, note func(string)) {
	if where.Listen == "" && where.Socket == "" {
		return
	}
	where.Listening = func(net.Addr) { note("") }
	told, wait := "", answerFirst
	for {
		start := time.Now()
		err := serveHere(ctx, where)
		if time.Since(start) > answerAgain {
			told, wait = "", answerFirst // it did serve
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			note(err.Error())
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			where.Log.Error("cannot answer; trying again", zap.String("listen", where.Listen), zap.String("socket", where.Socket), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, answerAgain)
	}
}

// lookAgain is how often it is looked whether the socket is there still.
const lookAgain = time.Second

// errRemoved says that somebody removed the socket, at which nobody can ask any more.
var errRemoved = errors.New("somebody removed the socket; it is made again")

// serveHere serves until ctx ends or the socket is removed.
func serveHere(ctx context.Context, where metrics.ServeOptions) error {
	if where.Socket == "" {
		return metrics.Serve(ctx, where)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := os.Lstat(where.Socket); errors.Is(err, fs.ErrNotExist) {
				cancel(errRemoved)
				return
			}
		}
	}()
	err := metrics.Serve(ctx, where)
	if errors.Is(context.Cause(ctx), errRemoved) {
		return errors.Join(errRemoved, err)
	}
	return err
}

// ended makes the end of one part the end of all.
func ended(ctx context.Context, part string, err error) error {
	if err == nil && ctx.Err() == nil {
		return fmt.Errorf("%s ended by itself", part)
	}
	return err
}

// forward passes on that something came, after before; what comes while the last is not yet taken is one with it.
func forward[T any](ctx context.Context, from <-chan T, to chan<- struct{}, before func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-from:
			if !ok {
				return
			}
			before()
			select {
			case to <- struct{}{}:
			default:
			}
		}
	}
}

// stuckAfter is how long the loop may be in one pass before it counts as hung: longer than a pass is let run.
const stuckAfter = 30 * time.Second

func healthy(loop *shaper.Loop) func() error {
	return func() error {
		if age := time.Since(loop.Heartbeat()); age > stuckAfter {
			return fmt.Errorf("the loop has not come around for %s", age.Round(time.Second))
		}
		return nil
	}
}
