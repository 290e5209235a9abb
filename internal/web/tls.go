package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/filewatch"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/part"
)

// secured is the TLS side of a Listener. It owns the goroutines that watch its files.
type secured struct {
	c       config.TLS
	log     *slog.Logger
	issued  *autocert.Manager // nil: certificates are files
	current atomic.Pointer[tls.Config]

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Secure makes the Listener speak TLS, if the configuration says so. The files of c are read now, and
// again when they change. It also opens a door: a Listener without TLS at a free port of loopback, for
// shell commands and clients of this machine, which then need no certificate authority. Call Secure
// before the Listener is served. Its error is a *part.SetupError.
func (g *Listener) Secure(ctx context.Context, c config.TLS, log *slog.Logger) error {
	if !c.Enabled() {
		return nil
	}
	s := &secured{c: c, log: log}
	if c.Cert == "" {
		s.issued = &autocert.Manager{
			Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(c.ACME.Dir), HostPolicy: autocert.HostWhitelist(c.ACME.Domains...), Email: c.ACME.Email,
		}
		if c.ACME.Directory != "" {
			s.issued.Client = &acme.Client{DirectoryURL: c.ACME.Directory}
		}
	}
	if err := s.load(); err != nil {
		return &part.SetupError{Err: fmt.Errorf("tls: %w", err)}
	}
	door, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	for _, path := range []string{c.Cert, c.Key, c.ClientCA} {
		if path != "" {
			s.wg.Go(func() { s.follow(watching, path) })
		}
	}
	g.secured, g.door = s, door
	return nil
}

// load reads the files. Open connections keep the certificate that they started with.
func (s *secured) load() error {
	next := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if s.issued != nil {
		next.GetCertificate = s.issued.GetCertificate
		next.NextProtos = append(next.NextProtos, acme.ALPNProto)
	} else {
		pair, err := tls.LoadX509KeyPair(s.c.Cert, s.c.Key)
		if err != nil {
			return fmt.Errorf("%s and %s are no certificate with its key: %w", s.c.Cert, s.c.Key, err)
		}
		next.Certificates = []tls.Certificate{pair}
	}
	if s.c.ClientCA != "" {
		pem, err := place.ReadFile(s.c.ClientCA)
		if err != nil {
			return err
		}
		next.ClientCAs = x509.NewCertPool()
		if !next.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s has no certificate in PEM form", s.c.ClientCA)
		}
		next.ClientAuth = tls.VerifyClientCertIfGiven // callers without one show a token
	}
	s.current.Store(next)
	return nil
}

// follow reads the files again when one changes. A pair that is replaced file by file does not fit
// for a moment; the old one serves until it does.
func (s *secured) follow(ctx context.Context, path string) {
	first := true
	err := filewatch.Watch(ctx, path, func() {
		if first { // Watch calls at once, and load has just read the files
			first = false
			return
		}
		if err := s.load(); err != nil {
			s.log.Warn("the new certificate is not used; the old one stays", "err", err)
			return
		}
		s.log.Info("the certificate files have been read again", "changed", path)
	})
	if err != nil {
		s.log.Warn("changes of a certificate file are not seen any more; restart weir to apply them", "file", path, "err", err)
	}
}

// config returns the TLS configuration, which follows the files.
func (s *secured) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return s.current.Load(), nil
	}}
}

// close ends the goroutines.
func (s *secured) close() {
	s.stop()
	s.wg.Wait()
}

// Close closes the Listener and stops watching its files. It may be called more than once.
func (g *Listener) Close() error {
	if g.secured != nil {
		g.secured.close()
		_ = g.door.Close()
	}
	return g.TCPListener.Close()
}

// accepting returns the listener that an http.Server accepts from.
func (g *Listener) accepting() net.Listener {
	if g.secured == nil {
		return g
	}
	return tls.NewListener(g, g.secured.config())
}

// Local returns the URL, without a path, under which programs of this machine reach the Listener.
func (g *Listener) Local() string {
	at := g
	if g.door != nil {
		at = g.door
	}
	return "http://" + httpserver.Dialable(at.Addr().String())
}

// URL returns the URL of the Listener without a path.
func (g *Listener) URL() string {
	if g.secured == nil {
		return g.Local()
	}
	return "https://" + httpserver.Dialable(g.Addr().String())
}
