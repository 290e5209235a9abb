package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/host/place"
)

// Options configures a Server.
type Options struct {
	// Dir is the folder. Open makes it, for its owner alone.
	Dir string
	// MaxBytes bounds the documents on the disk; the server's own files need a little more.
	MaxBytes int64
	// Late confirms writes before they are on the disk. They reach it within two minutes, and a loss
	// of power loses them. Otherwise each write is on the disk when it is confirmed.
	Late bool
	// Cluster makes the server one of several; nil is a server alone.
	Cluster *Cluster
	// Logger gets the server's messages; its notices are of level debug. Nil discards them.
	Logger *slog.Logger
}

const (
	// startTimeout bounds the start, which reads what is on the disk.
	startTimeout = 30 * time.Second
	// overhead is room for the server's own files, such as indexes.
	overhead = 64 << 20
	// memoryBytes bounds streams in memory, of which there are none. Zero would be most of the
	// machine.
	memoryBytes = 1 << 20
	// maxPayload bounds a message: a document and its headers.
	maxPayload = 1 << 20
)

// Server is a NATS server in this process.
type Server struct {
	o      Options
	conn   *nats.Conn
	unlock func()
	look   chan struct{} // capacity 1: the server has told of a problem

	end  context.CancelFunc // ends heal
	work sync.WaitGroup

	mu     sync.Mutex // guards below
	server *server.Server
	writes context.Context // see Writes
	breaks context.CancelCauseFunc
}

// Open starts a server over a folder. It fails if another process uses the folder.
func Open(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	free, cancel := context.WithCancel(context.Background())
	cancel() // a lock that is held is not waited for
	unlock, err := place.Lock(free, filepath.Join(o.Dir, "lock"))
	switch {
	case errors.Is(err, context.Canceled):
		return nil, fmt.Errorf("another weir uses %s: stop it, or give this one a folder of its own", o.Dir)
	case err != nil:
		return nil, err
	}
	s := &Server{o: o, unlock: unlock, look: make(chan struct{}, 1), end: func() {}}
	s.writes, s.breaks = context.WithCancelCause(context.Background())
	if err := s.start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start() (err error) {
	if err := place.MakeFolder(s.files()); err != nil {
		return err
	}
	// The engine waits for files that it may not use until its start has taken too long.
	if err := place.Usable(s.files()); err != nil {
		return err
	}
	if err := s.run(); err != nil {
		return err
	}
	client := []nats.Option{
		nats.Name("weir"), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(0, 0),
		nats.InProcessServer(inProcess{s}),
	}
	if c := s.o.Cluster; c != nil {
		client = append(client, nats.Nkey(c.NKey, c.Sign))
	}
	s.conn, err = nats.Connect("", client...)
	if err != nil {
		return fmt.Errorf("connect to the store: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	s.work.Go(func() { s.heal(ctx) })
	return nil
}

// reconnectWait is the pause between attempts to connect to a server that was started again.
const reconnectWait = 100 * time.Millisecond

// files is the folder of the server's own files.
func (s *Server) files() string { return filepath.Join(s.o.Dir, "nats") }

// run starts a server over the folder.
func (s *Server) run() error {
	o := &server.Options{
		ServerName: "weir", DontListen: true, NoSigs: true, MaxPayload: maxPayload,
		JetStream: true, StoreDir: s.files(), SyncAlways: !s.o.Late, DisableJetStreamBanner: true,
		JetStreamMaxMemory: memoryBytes, JetStreamMaxStore: s.o.MaxBytes + overhead,
	}
	if s.o.Cluster != nil {
		s.o.Cluster.join(o)
	}
	next, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("start the store: %w", err)
	}
	next.SetLoggerV2(logger{s.o.Logger, s.look}, false, false, false)
	s.mu.Lock()
	s.server = next
	s.mu.Unlock()
	next.Start()
	if !next.ReadyForConnections(startTimeout) || !next.JetStreamEnabled() {
		return fmt.Errorf("the store in %s did not start within %v; the log says why", s.o.Dir, startTimeout)
	}
	return nil
}

// current returns the server, which heal replaces.
func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// inProcess connects to the current server.
type inProcess struct{ of *Server }

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) { return p.of.current().InProcessConn() }

// Conn returns a connection to the server, which lasts until Close.
func (s *Server) Conn() *nats.Conn { return s.conn }

// Close ends the server, waits for that, and frees the folder.
func (s *Server) Close() {
	s.end()
	s.work.Wait()
	s.breaks(errClosed)
	if s.conn != nil {
		s.conn.Close()
	}
	if last := s.current(); last != nil {
		last.Shutdown()
		last.WaitForShutdown()
	}
	s.unlock()
}

// logger hands the server's messages to a slog.Logger. look learns of warnings and errors.
type logger struct {
	log  *slog.Logger
	look chan<- struct{}
}

var _ server.Logger = logger{}

func (l logger) tell(level slog.Level, format string, v []any) {
	if level >= slog.LevelWarn {
		select {
		case l.look <- struct{}{}:
		default:
		}
	}
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "store: "+fmt.Sprintf(format, v...))
	}
}

// Noticef implements server.Logger.
func (l logger) Noticef(format string, v ...any) { l.tell(slog.LevelDebug, format, v) }

// Warnf implements server.Logger.
func (l logger) Warnf(format string, v ...any) { l.tell(slog.LevelWarn, format, v) }

// Fatalf implements server.Logger. The server does not end the process.
func (l logger) Fatalf(format string, v ...any) { l.tell(slog.LevelError, format, v) }

// Errorf implements server.Logger.
func (l logger) Errorf(format string, v ...any) { l.tell(slog.LevelError, format, v) }

// Debugf implements server.Logger.
func (l logger) Debugf(format string, v ...any) { l.tell(slog.LevelDebug, format, v) }

// Tracef implements server.Logger.
func (l logger) Tracef(format string, v ...any) { l.tell(slog.LevelDebug, format, v) }
