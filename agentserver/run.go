package agentserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// defaultAddr is the default address of an agent.
const defaultAddr = "127.0.0.1:7000"

// Bounds of the HTTP server. Reading a body and writing a response have theirs
// in package streamable.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Run makes an agent and serves it until ctx ends. The agent listens, registers with its router if
// it has one, and reloads its configuration after each change. When ctx has ended, Run leaves the
// router, waits up to ShutdownGrace for running calls, and returns nil.
func Run(ctx context.Context, o Options) error {
	s, err := New(o)
	if err != nil {
		return err
	}
	addr := s.o.Addr
	if addr == "" {
		addr = defaultAddr
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(fmt.Errorf("agent %q cannot listen: %w; Options.Addr or the configuration's port names another", s.name, err), s.Close(ctx))
	}
	return s.serve(ctx, l)
}

// serve serves on a listener until ctx ends, and closes it.
func (s *Server) serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	beside, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	failed := make(chan error, 1)
	all.Go(func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("agent %q: %w", s.name, err)
		}
	})
	s.log.Info("agent listens", "agent", s.name, "addr", l.Addr().String(), "tools", len(s.offer.Load().tools))
	if s.o.Ready != nil {
		s.o.Ready(l.Addr())
	}
	if s.o.Config != "" {
		all.Go(func() {
			if err := s.Watch(beside); err != nil {
				s.log.Error("the configuration is no longer watched", "err", err)
			}
		})
	}
	if s.o.Router != "" {
		reg, err := newRegistration(s, l.Addr())
		if err != nil {
			failed <- err
		} else {
			all.Go(func() { reg.run(beside) })
		}
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	// The router stops sending first; then running calls finish.
	cancel()
	grace, end := context.WithTimeout(context.WithoutCancel(ctx), s.o.ShutdownGrace)
	defer end()
	if closeErr := s.Close(grace); closeErr != nil {
		s.log.Warn("not everything ended by itself", "agent", s.name, "err", closeErr)
	}
	if shutdownErr := hs.Shutdown(grace); shutdownErr != nil {
		_ = hs.Close()
	}
	all.Wait()
	return err
}
