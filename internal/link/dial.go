package link

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/net/hop"
)

// dialFunc connects to an address.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns a dialer that notices within seconds that the other machine is gone.
func Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 2 * time.Second, KeepAliveConfig: keepAlive, Control: controlConn}
}

// keepAlive ends connections to a machine that has been silent for 4 seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}

// Listen listens for the connections of other nodes. They end as those that this node dials do, if the other machine
// is silent: with the times of the system, the goroutine that reads from it would wait for two and a half minutes.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return quickListener{l}, nil
}

// quickListener is a listener of Listen.
type quickListener struct{ net.Listener }

// Accept implements net.Listener.
func (l quickListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = controlConn("", "", raw) // a connection works without it
		}
	}
	return conn, nil
}

// wholeRecords returns a configuration with which a message of some KB is one record: the other node needs it whole.
func wholeRecords(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.DynamicRecordSizingDisabled = true
	return config
}

// newTransport returns the client of large requests. It carries them in the goroutine of the caller.
func newTransport(dial dialFunc, config *tls.Config) *hop.Transport {
	t := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
	}
	if config == nil {
		t.DialContext = unsent(dial)
		return hop.New(t)
	}
	t.DialTLSContext = unsent(encrypted(dial, config))
	return hop.New(t)
}

// encrypted returns a dial with TLS.
func encrypted(dial dialFunc, config *tls.Config) dialFunc {
	config = wholeRecords(config)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		bounded, cancel := context.WithTimeout(ctx, handshakeTime)
		defer cancel()
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(bounded); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return conn, nil
	}
}

// handshakeTime bounds a TLS handshake with another node.
const handshakeTime = 3 * time.Second

// unsent marks errors of a dial: nothing was sent.
func unsent(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return conn, nil
	}
}
