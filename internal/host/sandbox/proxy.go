package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/net/address"
)

// Bounds of a proxy.
const (
	maxTunnels = 512
	idleTunnel = 10 * time.Minute
	dialTime   = 30 * time.Second
)

// reached is told each host that a program asks for: nil if it was let through, or why not.
type reached func(host, port string, refused error)

// proxy is the only way of a program to the network. Each program has one of its own, which it shows a password: other
// programs of this machine could connect otherwise.
type proxy struct {
	allow    address.List
	below    []string // ".example.com" for *.example.com
	open     bool     // every host
	dialer   address.Dialer
	reached  reached
	password string
	listener net.Listener
	socket   string // path of the listener; "" for a port
	server   *http.Server
	slots    chan struct{}

	mu    sync.Mutex // guards below
	conns map[net.Conn]bool
	done  bool
	tasks sync.WaitGroup
}

// checkHosts reports an entry of Spec.Net that names no host.
func checkHosts(hosts []string) (exact, below []string, err error) {
	for _, host := range hosts {
		if rest, ok := strings.CutPrefix(host, "*."); ok && rest != "" && !strings.ContainsAny(rest, "*/:@") {
			below = append(below, "."+strings.ToLower(rest))
			continue
		}
		exact = append(exact, host)
	}
	_, err = address.NewList(exact)
	return exact, below, err
}

// newProxy starts a proxy for hosts; nil are all. socket is where it listens, "" for a port of this machine.
func newProxy(hosts []string, socket string, told reached, log *slog.Logger) (*proxy, error) {
	exact, below, err := checkHosts(hosts)
	if err != nil {
		return nil, err
	}
	p := &proxy{below: below, open: hosts == nil, reached: told, password: rand.Text(), socket: socket, slots: make(chan struct{}, maxTunnels), conns: map[net.Conn]bool{}}
	if p.allow, err = address.NewList(exact); err != nil {
		return nil, err
	}
	if told == nil {
		p.reached = func(string, string, error) {}
	}
	if socket != "" {
		_ = os.Remove(socket)
		p.listener, err = net.Listen("unix", socket)
	} else {
		p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("the proxy of the sandbox cannot listen: %w", err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.Header.Del("Proxy-Authorization"); r.Out.Host = r.In.Host },
		Transport: &http.Transport{DialContext: p.dial, ResponseHeaderTimeout: 5 * time.Minute, IdleConnTimeout: 30 * time.Second, DisableCompression: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			code := http.StatusBadGateway
			if errors.Is(err, address.ErrRefused) {
				code = http.StatusForbidden
			}
			http.Error(w, err.Error(), code)
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !p.knows(r):
				w.Header().Set("Proxy-Authenticate", `Basic realm="weir"`)
				http.Error(w, "this proxy is for one program of weir", http.StatusProxyAuthRequired)
			case r.Method == http.MethodConnect:
				p.tunnel(w, r)
			case r.URL.Host == "":
				http.Error(w, "this is a proxy: send the whole URL", http.StatusBadRequest)
			default:
				forward.ServeHTTP(w, r)
			}
		}),
		ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	p.tasks.Go(func() { _ = p.server.Serve(p.listener) }) // until close
	return p, nil
}

// port returns the port of this machine that the proxy listens on, 0 if it listens at a socket.
func (p *proxy) port() int {
	if at, ok := p.listener.Addr().(*net.TCPAddr); ok {
		return at.Port
	}
	return 0
}

// environment returns the variables by which programs find a proxy at a port.
func (p *proxy) environment(port int) []string {
	at := (&url.URL{Scheme: "http", User: url.UserPassword("weir", p.password), Host: fmt.Sprintf("127.0.0.1:%d", port)}).String()
	env := []string{"NODE_USE_ENV_PROXY=1", "NO_PROXY=", "no_proxy="}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env = append(env, name+"="+at, strings.ToLower(name)+"="+at)
	}
	return append(env, "npm_config_proxy="+at, "npm_config_https_proxy="+at)
}

func (p *proxy) knows(r *http.Request) bool {
	scheme, text, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " ")
	raw, err := base64.StdEncoding.DecodeString(text)
	return err == nil && strings.EqualFold(scheme, "Basic") && subtle.ConstantTimeCompare(raw, []byte("weir:"+p.password)) == 1
}

// dial connects to a host if the program may reach it. The name is resolved here, once.
func (p *proxy) dial(ctx context.Context, network, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, fmt.Errorf("%.100q is no host:port", server)
	}
	d := p.dialer
	d.Rule.Allow = p.allow
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if p.open || slices.ContainsFunc(p.below, func(end string) bool { return strings.HasSuffix(name, end) }) {
		if d.Rule.Allow, err = address.NewList([]string{name}); err != nil {
			return nil, err
		}
	}
	if p.open { // as without a sandbox
		d.Rule.Private = address.AnyPrivate()
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := d.DialContext(ctx, network, net.JoinHostPort(name, port))
	if errors.Is(err, address.ErrRefused) {
		err = fmt.Errorf("the sandbox of this server lets no connection to %.200s through: %w; add the host to sandbox.net if the server needs it", server, err)
		p.reached(name, port, err)
		return nil, err
	}
	if err == nil {
		p.reached(name, port, nil)
	}
	return conn, err
}

// tunnel answers CONNECT.
func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		http.Error(w, fmt.Sprintf("the server has %d connections already", maxTunnels), http.StatusServiceUnavailable)
		return
	}
	out, err := p.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "no tunnel over this connection", http.StatusInternalServerError)
		return
	}
	defer in.Close()
	if !p.hold(in, out) {
		return
	}
	defer p.release(in, out)
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { copyIdle(out, buffered, in); closeWrite(out) })
	both.Go(func() { copyIdle(in, out, out); closeWrite(in) })
	both.Wait()
}

// copyIdle copies until the source ends, or is quiet for too long.
func copyIdle(to io.Writer, from io.Reader, conn net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(idleTunnel))
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// hold keeps the connections of a tunnel for close; false after it.
func (p *proxy) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

func (p *proxy) release(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// close ends the proxy and its connections.
func (p *proxy) close() {
	p.mu.Lock()
	p.done = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.server.Close()
	p.tasks.Wait()
	if p.socket != "" {
		_ = os.RemoveAll(filepath.Dir(p.socket))
	}
}
