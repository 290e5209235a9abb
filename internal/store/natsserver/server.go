package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/place"
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
	server *server.Server
	conn   *nats.Conn
	unlock func()
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
	s := &Server{unlock: unlock}
	if err := s.start(o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(o Options) (err error) {
	files := filepath.Join(o.Dir, "nats")
	if err := place.MakeFolder(files); err != nil {
		return err
	}
	options := &server.Options{
		ServerName: "weir", DontListen: true, NoSigs: true, MaxPayload: maxPayload,
		JetStream: true, StoreDir: files, SyncAlways: !o.Late, DisableJetStreamBanner: true,
		JetStreamMaxMemory: memoryBytes, JetStreamMaxStore: o.MaxBytes + overhead,
	}
	client := []nats.Option{nats.Name("weir"), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)}
	if o.Cluster != nil {
		o.Cluster.join(options)
		client = append(client, nats.Nkey(o.Cluster.NKey, o.Cluster.Sign))
	}
	if s.server, err = server.NewServer(options); err != nil {
		return fmt.Errorf("start the store: %w", err)
	}
	s.server.SetLoggerV2(logger{o.Logger}, false, false, false)
	s.server.Start()
	if !s.server.ReadyForConnections(startTimeout) || !s.server.JetStreamEnabled() {
		return fmt.Errorf("the store in %s did not start within %v; the log says why", o.Dir, startTimeout)
	}
	s.conn, err = nats.Connect("", append(client, nats.InProcessServer(s.server))...)
	if err != nil {
		return fmt.Errorf("connect to the store: %w", err)
	}
	return nil
}

// Conn returns a connection to the server, which lasts until Close.
func (s *Server) Conn() *nats.Conn { return s.conn }

// Close ends the server, waits for that, and frees the folder.
func (s *Server) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}
	s.unlock()
}

// logger hands the server's messages to a slog.Logger.
type logger struct{ log *slog.Logger }

var _ server.Logger = logger{}

func (l logger) tell(level slog.Level, format string, v []any) {
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
