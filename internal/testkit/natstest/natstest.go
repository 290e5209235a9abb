// Package natstest runs NATS servers with JetStream in the process of a test. No program of weir links them: a gateway
// is a client of servers that run elsewhere.
package natstest

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

// startTimeout bounds the start of a server, on a busy machine.
const startTimeout = time.Minute

// Server is a NATS server in this process. The test that has started it ends it.
type Server struct {
	*server.Server
	conn *nats.Conn
}

// Start starts a server at a port of loopback. The options need no address; an empty StoreDir is a folder of the test.
func Start(t testing.TB, o server.Options) *Server {
	t.Helper()
	all, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// Three starts three servers that are one cluster.
func Three(t testing.TB) [3]*Server {
	t.Helper()
	routes, err := proctest.FreeAddresses(3)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	members := make([]server.Options, len(routes))
	for i, own := range routes {
		at, err := url.Parse("nats://" + own)
		if err != nil {
			t.Fatal(err)
		}
		m := &members[i]
		m.ServerName = fmt.Sprint("s", i)
		m.StoreDir = filepath.Join(dir, m.ServerName)
		m.Cluster.Name, m.Cluster.Host, m.Cluster.NoAdvertise = "natstest", at.Hostname(), true
		if _, err := fmt.Sscan(at.Port(), &m.Cluster.Port); err != nil {
			t.Fatal(err)
		}
		for _, other := range routes {
			if other != own {
				m.Routes = append(m.Routes, &url.URL{Scheme: "nats", Host: other})
			}
		}
	}
	all, err := start(t, members...)
	if err != nil {
		t.Fatal(err)
	}
	return [3]*Server(all)
}

// start starts servers, all of them before it waits for one.
func start(t testing.TB, options ...server.Options) (all []*Server, err error) {
	for _, o := range options {
		o.Host, o.JetStream, o.NoSigs = "127.0.0.1", true, true
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
		if o.StoreDir == "" {
			o.StoreDir = t.TempDir()
		}
		n, err := server.NewServer(&o)
		if err != nil {
			return nil, err
		}
		s := &Server{Server: n}
		t.Cleanup(s.Close)
		s.Start()
		all = append(all, s)
	}
	for i, s := range all {
		if !s.ReadyForConnections(startTimeout) {
			return nil, fmt.Errorf("the NATS server has not started within %v", startTimeout)
		}
		if options[i].Username != "" {
			continue
		}
		// Like a gateway's: requests fail at once while there is no connection.
		if s.conn, err = nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Conn returns a connection to the server, which lasts until Close; nil if the server has a user.
func (s *Server) Conn() *nats.Conn { return s.conn }

// At returns the server's HOST:PORT.
func (s *Server) At() string { return s.Addr().String() }

// Close ends the server and waits for its end. It may be called more than once.
func (s *Server) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.Shutdown()
	s.WaitForShutdown()
}
