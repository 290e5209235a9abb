package natsstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Servers is where a NATS is that runs elsewhere, and how a client signs in there. Empty fields are
// not needed by the servers.
type Servers struct {
	// URLs are nats:// or tls:// URLs of one cluster.
	URLs []string
	// Creds is a file of credentials, CA one of certificates that servers are checked by, and Cert
	// and Key are files of the client's own certificate.
	Creds, CA, Cert, Key string
	// Logger gets what servers refuse; nil discards it.
	Logger *slog.Logger
}

const (
	// clientPing is how often the client asks for a sign of life, and clientMissed how many may be
	// missing before it tries another server.
	clientPing   = time.Second
	clientMissed = 2
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 2 * time.Second
	// dialPause is the wait between attempts.
	dialPause, dialJitter = 250 * time.Millisecond, 250 * time.Millisecond
	// lookTimeout bounds one question of Look.
	lookTimeout = time.Second
	// refusedAgain is how often a refusal is logged that lasts.
	refusedAgain = time.Minute
)

// options returns how a client connects to servers.
func (s Servers) options() ([]nats.Option, error) {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	o := []nats.Option{
		nats.Name("weir"), nats.Timeout(dialTimeout), nats.PingInterval(clientPing), nats.MaxPingsOutstanding(clientMissed),
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(dialPause), nats.ReconnectJitter(dialJitter, dialJitter),
		nats.IgnoreAuthErrorAbort(), // credentials change: two refusals would end the connection for good
	}
	o = append(o, nats.ErrorHandler(refusals(s.Logger)))
	if s.Creds != "" {
		o = append(o, nats.UserCredentials(s.Creds))
	}
	if s.CA != "" {
		o = append(o, nats.RootCAs(s.CA))
	}
	if s.Cert != "" {
		o = append(o, nats.ClientCert(s.Cert, s.Key))
	}
	for _, one := range s.URLs {
		if _, err := url.Parse(one); err != nil {
			return nil, errors.New("connect to NATS: a URL of the servers cannot be read") // the error has the password in it
		}
	}
	return o, nil
}

// Dial connects to servers. It tries until ctx ends, unless they refuse the client. The connection
// comes back after every loss, for as long as it is not closed. While it is down, requests fail at
// once: nothing waits in a buffer to be sent when its sender has given up.
func Dial(ctx context.Context, s Servers) (*nats.Conn, error) {
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	for {
		conn, err := nats.Connect(strings.Join(s.URLs, ","), o...)
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) && !isNetwork(err) {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
	}
}

// DialLater is Dial that asks each server once, and returns a connection that comes later if none has taken the client.
// Servers that refuse the client are asked again as well: operators may mend that there. See Reason. An error is one of
// the client's own files and URLs.
func DialLater(s Servers) (*nats.Conn, error) {
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	o = append(o, nats.RetryOnFailedConnect(true))
	conn, err := nats.Connect(strings.Join(s.URLs, ","), o...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return conn, nil
}

// ErrAway says that the servers do not answer.
var ErrAway = errors.New("no answer of NATS")

// Errors that say how servers refuse a client.
var (
	errRefused = errors.New("NATS refuses the credentials of this node")
	errTLS     = errors.New("no connection to NATS by TLS")
)

// Look asks servers whether they take the client and keep documents for it. It changes nothing. The error is one of the
// client's own files and URLs, or one of Reason.
func Look(ctx context.Context, s Servers) error {
	conn, err := DialLater(s)
	if err != nil {
		return fmt.Errorf("%w; operators check the ca, cert, key and creds of the key store", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, lookTimeout)
		_, err = js.AccountInfo(attempt)
		cancel()
		reason := Reason(conn, err)
		switch {
		case err == nil:
			return nil
		case errors.Is(reason, errRefused), errors.Is(reason, errTLS):
			return reason
		case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("%w; operators of NATS allow JetStream to this account", err)
		case conn.IsConnected():
			reason = fmt.Errorf("%w: NATS answers, and its JetStream does not (%w); operators check that JetStream is on, and that most servers are there", ErrAway, err)
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return reason
		}
	}
}

// Reason says why a store cannot be asked, for operators: what the servers have against the client if there is no
// connection, or else err.
func Reason(conn *nats.Conn, err error) error {
	if conn.IsConnected() {
		return err
	}
	last := conn.LastError()
	var alert tls.AlertError
	switch {
	case errors.As(last, &alert):
		return fmt.Errorf("%w (%w); operators check the ca, cert and key of the key store", errTLS, last)
	case last == nil, errors.Is(last, nats.ErrNoServers), isNetwork(last):
		return fmt.Errorf("%w; operators check the servers of the key store and the network to them", ErrAway)
	case errors.Is(last, nats.ErrAuthorization), errors.Is(last, nats.ErrAuthExpired), errors.Is(last, nats.ErrAuthRevoked), errors.Is(last, nats.ErrAccountAuthExpired):
		return fmt.Errorf("%w (%w); operators check the URL and the creds of the key store", errRefused, last)
	default: // of TLS, or of a file of credentials
		return fmt.Errorf("%w (%w); operators check the ca, cert, key and creds of the key store", errTLS, last)
	}
}

// refusals returns a handler of errors that servers tell, which logs each kind once a minute: a client that is refused
// tries several times a second. Without a handler, the library writes to standard error.
func refusals(log *slog.Logger) nats.ErrHandler {
	var mu sync.Mutex // guards below
	told := map[string]time.Time{}
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		what := err.Error()
		mu.Lock()
		due := time.Since(told[what]) >= refusedAgain
		if due {
			for old, at := range told {
				if time.Since(at) >= refusedAgain {
					delete(told, old)
				}
			}
			told[what] = time.Now()
		}
		mu.Unlock()
		switch {
		case !due:
		case errors.Is(err, nats.ErrSlowConsumer):
			log.Warn("messages of other nodes found no room here and were lost: the node is too busy", "err", err)
		default:
			log.Warn("NATS refuses this client; operators check the credentials of the key store, and what they allow", "err", err)
		}
	}
}

// isNetwork tells whether an error is one of the way to a server, and not one of a file or of a URL, which
// another attempt does not mend.
func isNetwork(err error) bool {
	var text *url.Error
	var op net.Error
	return errors.As(err, &op) && !errors.As(err, &text)
}
