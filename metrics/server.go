package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// The limits of the server. Clients that are slow, silent or too many cost at most maxConnections answers of memory, and keep nobody else
// from an answer for long (boundedListener).
const (
	maxConnections    = 512
	maxStreams        = 8 // of HTTP/2, in a connection
	maxHeaderBytes    = 16 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second // the wait for a turn, the counters and the sending
	idleTimeout       = 5 * time.Second  // idle connections must not keep a scrape from its turn; a new one costs little
	stopTimeout       = 5 * time.Second
)

// ServeOptions is where and how to serve.
type ServeOptions struct {
	// Listen is a TCP address, ":9825"; "" for none.
	Listen string
	// WebConfig is the exporter toolkit's web config file: TLS, client certificates, basic auth. It is read anew for each
	// connection and request, so that a renewed certificate needs no restart. "" for plain HTTP.
	WebConfig string
	// Socket is the path of a unix socket, which the program's own commands use; "" for none. It needs no web config: its mode
	// says who may.
	Socket  string
	Handler http.Handler
	Log     *zap.Logger
	// Listening, if not nil, is called with the TCP address once it is open.
	Listening func(net.Addr)

	writeTimeout, staleAfter time.Duration // for tests; 0 is the constant
}

// Serve answers requests until ctx ends, then lets running ones finish, and returns nil. An error before that is final: a bad
// web config, a port or a socket that is taken.
func Serve(ctx context.Context, o ServeOptions) error {
	if err := CheckWebConfig(o.WebConfig); err != nil {
		return fmt.Errorf("read metrics.web_config %s: %w", o.WebConfig, err)
	}
	var socket, port net.Listener
	var err error
	if o.Socket != "" {
		if socket, err = listenUnix(o.Socket); err != nil {
			return err
		}
		defer socket.Close()
	}
	if o.Listen != "" {
		if port, err = listenTCP(o.Listen); err != nil {
			return err
		}
		defer port.Close()
	}
	group, ctx := errgroup.WithContext(ctx)
	if socket != nil {
		server := o.server()
		group.Go(func() error { return server.Serve(o.bounded(socket)) })
		group.Go(func() error { return stop(ctx, server) })
	}
	if port != nil {
		server := o.server()
		flags := &web.FlagConfig{WebConfigFile: &o.WebConfig}
		toolkit := slog.New(newSlogHandler(o.Log))
		group.Go(func() error { return web.Serve(o.bounded(port), server, flags, toolkit) })
		group.Go(func() error { return stop(ctx, server) })
		o.Log.Info("listening", zap.Stringer("address", port.Addr()), zap.String("web_config", o.WebConfig))
		if o.Listening != nil {
			o.Listening(port.Addr())
		}
	}
	group.Go(func() error {
		<-ctx.Done()
		return nil
	})
	if err := group.Wait(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

func (o ServeOptions) bounded(l net.Listener) *boundedListener {
	bounded := newBoundedListener(l, maxConnections)
	if o.staleAfter != 0 {
		bounded.stale = o.staleAfter
	}
	return bounded
}

func (o ServeOptions) server() *http.Server {
	timeout := writeTimeout
	if o.writeTimeout != 0 {
		timeout = o.writeTimeout
	}
	return &http.Server{
		Handler: o.Handler, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: timeout, IdleTimeout: idleTimeout,
		ConnState: noteState,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:  o.errorLog(),
	}
}

// stop waits for ctx, then for running requests, but not for long.
func stop(ctx context.Context, server *http.Server) error {
	<-ctx.Done()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		return server.Close()
	}
	return nil
}
