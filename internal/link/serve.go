package link

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server serves requests of other nodes.
type Server struct {
	server    *http.Server
	exchanges *exchangeServer
	done      chan struct{}

	mu     sync.Mutex            // guards below
	unused map[net.Conn]struct{} // nothing has come on them yet
	ending bool
}

// readTime bounds the time in which a node sends the header of a request.
const readTime = 10 * time.Second

// Serve serves the requests of other nodes at a listener. handler gets those that are for this node; Caller
// says who makes them. config asks for certificates of the cluster; nil does not encrypt, for tests.
func (l *Link) Serve(listener net.Listener, config *tls.Config, handler http.Handler) *Server {
	if config != nil {
		listener = tls.NewListener(listener, wholeRecords(config))
	}
	s := &Server{done: make(chan struct{}), unused: map[net.Conn]struct{}{}}
	s.exchanges = newExchangeServer(l.receive(handler), l.o.Logger)
	s.server = &http.Server{
		Handler: l.receive(exchanging(s.exchanges, handler)), ReadHeaderTimeout: readTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 256 << 10,
		ErrorLog: log.New(serverLog{l.o.Logger}, "", 0), ConnState: s.note,
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener)
	}()
	return s
}

// serverLog takes the messages of the HTTP server.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	l.log.Debug("peer link", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}

// note follows the connections on which no request has come. [http.Server.Shutdown] waits five seconds for each.
func (s *Server) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.unused, c)
	case s.ending:
		_ = c.Close()
	default:
		s.unused[c] = struct{}{}
	}
}

// unusedTime is how long a Server that ends leaves connections open on which nothing has come: a request may be on its
// way.
const unusedTime = 500 * time.Millisecond

// closeUnused closes the connections on which nothing has come. Their nodes have sent nothing, and know it.
func (s *Server) closeUnused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.unused {
		_ = c.Close()
	}
}

// Shutdown waits for the requests until ctx ends, and closes the rest. A nil Server has none.
func (s *Server) Shutdown(ctx context.Context) {
	if s == nil {
		return
	}
	defer time.AfterFunc(unusedTime, s.closeUnused).Stop()
	var ending sync.WaitGroup
	defer ending.Wait()
	ending.Go(func() { s.exchanges.Shutdown(ctx) })
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	<-s.done
}

// exchanging takes connections for small requests.
func exchanging(s *exchangeServer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != pathExchange {
			next.ServeHTTP(w, r)
			return
		}
		if conn, err := TakeOver(w, r, exchangeProtocol); err == nil {
			s.Serve(conn)
		}
	})
}

// receive checks a request of another node.
func (l *Link) receive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := first(r.Header, headerTo)
		if to != "" && to != l.o.Inc() {
			if l.passOn(w, r, to) {
				return
			}
			// It may be for an older incarnation of this process: the handler knows what it owns.
		}
		if l.o.Answer(w, r) {
			return
		}
		id, ok := l.callers.read(r.Header)
		if !ok {
			http.Error(w, "the header Weir-As is missing or cannot be read", http.StatusBadRequest)
			return
		}
		from := first(r.Header, headerFrom)
		// Rules, the audit log and bounds look at where a request is from: the node in between is nowhere.
		r.RemoteAddr = first(r.Header, headerAddr)
		for _, name := range keyHeaders {
			rename(r.Header, prefixKey+name, name)
		}
		Strip(r.Header)
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, carried{id, from, to != "" && to != l.o.Inc()}))
		r.TLS = nil // the certificate is the node's, not the caller's
		next.ServeHTTP(w, r)
	})
}

// passOn sends a request on to another node that its sender cannot reach. It returns false if the request
// must not go further, or that node is gone.
func (l *Link) passOn(w http.ResponseWriter, r *http.Request, to string) bool {
	if _, there := l.o.Peer(to); !there || hops(r.Header) >= maxHops {
		return false
	}
	resp, err := l.Direct(to, r)
	if err != nil {
		l.o.Logger.Warn("a request of another node was not passed on", "inc", to, "err", err)
		said := unreachedUnknown
		if errors.Is(err, ErrNotSent) {
			said = unreachedUnsent
		}
		w.Header().Set(headerUnreached, said)
		http.Error(w, "the node does not answer", http.StatusBadGateway)
		return true
	}
	if owners, ok := resp.Header[HeaderOwner]; ok { // for the sender, which follows it
		w.Header()[HeaderOwner] = owners
	}
	_ = Copy(w, resp)
	return true
}
