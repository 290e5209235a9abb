package clustertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Options describes the cluster.
type Options struct {
	Weir   string   // the program; "" starts none: the test is the nodes, with StoreURL
	Nodes  int      // 0: three
	Spare  int      // further nodes at the end of Cluster.Nodes, which the test starts
	Config string   // a part of the configuration of each node, in YAML: all but store and cluster
	Opens  []string // old_keys of each node
	// Servers is the number of NATS servers, which keep each document three times if there are three. 0: one.
	Servers int
}

// Ports of each node, at an address of its own.
const (
	publicPort = 8080
	linkPort   = 8090 // of the peer link
	proxyPort  = 8091 // of the proxy in front of it, which other nodes know
	storePort  = 4222 // of the first server; the others follow
	routePort  = 6222 // between NATS servers
	natsHost   = 250
)

// clusters counts the clusters of this process: each has a network of its own.
var clusters atomic.Uint32

// Key is the secret that the nodes share. Key2 is another one, for nodes whose key changes.
const (
	Key  = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	Key2 = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA="
)

// Cluster is some weirs over one NATS server.
type Cluster struct {
	// URL is the URL of the balancer, without a path. It takes the nodes in turn, and the next one where a
	// node cannot be reached.
	URL   string
	Nodes []*Node
	NATS  *NATS // the first of Servers
	// Servers are the NATS servers.
	Servers []*NATS

	dir     string
	o       Options
	turn    atomic.Uint32
	links   map[[2]*Node]*Link
	network [2]byte
}

// Node is one weir.
type Node struct {
	process
	// Name is n0, n1 and so on. URL is the URL of the node itself, without a path. StoreURL is the URL of the NATS
	// servers, behind the link of the node.
	Name, URL, StoreURL string

	c       *Cluster
	weir    string // the program
	config  string
	address string
	store   *Link
	peers   *proxy // nil while the process does not run; guarded by process.mu
	removed atomic.Bool
}

// Start starts a cluster and waits until each node is ready. It ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	o.Nodes, o.Servers = cmp.Or(o.Nodes, 3), cmp.Or(o.Servers, 1)
	id := uint32(os.Getpid())*16 + clusters.Add(1)%16
	c := &Cluster{o: o, dir: t.TempDir(), links: map[[2]*Node]*Link{}, network: [2]byte{byte(1 + id/250%250), byte(1 + id%250)}}
	c.serve(t)
	for i := range o.Nodes + o.Spare {
		n, err := c.add(i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			n.Kill()
			if t.Failed() {
				t.Logf("log of %s:\n%s", n.Name, n.log.String())
			}
		})
	}
	stores := c.proxyStores(t)
	t.Cleanup(func() {
		c.Heal()
		for _, p := range stores {
			p.close()
		}
	})
	for _, from := range c.Nodes {
		for _, to := range c.Nodes {
			if from != to {
				c.links[[2]*Node{from, to}] = newLink()
			}
		}
	}
	if o.Weir == "" {
		return c
	}
	failed := make(chan error)
	for _, n := range c.Nodes[:o.Nodes] {
		go func() { failed <- n.Start() }()
	}
	var err error
	for range o.Nodes {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.balance(t)
	return c
}

// at returns an address of the cluster's network.
func (c *Cluster) at(host, port int) string {
	return fmt.Sprintf("127.%d.%d.%d:%d", c.network[0], c.network[1], host, port)
}

// serve starts the NATS servers.
func (c *Cluster) serve(t testing.TB) {
	t.Helper()
	var routes []string
	for k := range c.o.Servers {
		routes = append(routes, c.at(natsHost, routePort+k))
	}
	for k := range c.o.Servers {
		s := &NATS{address: c.at(natsHost, storePort+k), dir: filepath.Join(c.dir, fmt.Sprint("nats", k))}
		if len(routes) > 1 {
			s.more = append([]string{fmt.Sprint("s", k), routes[k]}, routes...)
		}
		c.Servers = append(c.Servers, s)
		t.Cleanup(s.Kill)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	c.NATS = c.Servers[0]
}

// storeURL returns the servers as a node reaches them.
func (c *Cluster) storeURL(host int) string {
	var all []string
	for k := range c.Servers {
		all = append(all, "nats://"+c.at(host, storePort+k))
	}
	return strings.Join(all, ",")
}

func (c *Cluster) add(i int) (*Node, error) {
	name, host := fmt.Sprint("n", i), i+1
	n := &Node{Name: name, weir: c.o.Weir, URL: "http://" + c.at(host, publicPort), StoreURL: c.storeURL(host), c: c, address: c.at(host, 0), store: newLink()}
	n.config = filepath.Join(c.dir, name+".yaml")
	c.Nodes = append(c.Nodes, n)
	return n, n.Rekey(Key, c.o.Opens...)
}

// Rekey gives the node another key, and old ones, from its next start on.
func (n *Node) Rekey(key string, old ...string) error {
	host, _, err := net.SplitHostPort(n.address)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("listen: %q\nstore: {at: %q, max_bytes: 64MB, replicas: %d}\ncluster: {node: %s, key: %q, old_keys: [%s], listen: %q, advertise: %q}\n%s\n",
		strings.TrimPrefix(n.URL, "http://"), n.StoreURL, n.c.o.Servers, n.Name, key, strings.Join(old, ", "),
		net.JoinHostPort(host, fmt.Sprint(linkPort)), net.JoinHostPort(host, fmt.Sprint(proxyPort)), n.c.o.Config)
	return os.WriteFile(n.config, []byte(text), 0o600)
}

// Upgrade makes the node another program from its next start on.
func (n *Node) Upgrade(weir string) { n.weir = weir }

func (c *Cluster) proxyStores(t testing.TB) (all []*proxy) {
	t.Helper()
	for i, n := range c.Nodes {
		for k, s := range c.Servers {
			p, err := newProxy(c.at(i+1, storePort+k), s.address, func(*net.TCPConn) *Link { return n.store })
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	return all
}

// Link returns the link from one node to another one.
func (c *Cluster) Link(from, to *Node) *Link { return c.links[[2]*Node{from, to}] }

// Heal opens all links.
func (c *Cluster) Heal() {
	for _, l := range c.links {
		l.Set(Open)
	}
	for _, n := range c.Nodes {
		n.store.Set(Open)
	}
}

// Store returns the link from the node to the NATS server.
func (n *Node) Store() *Link { return n.store }

// Log returns the end of the node's standard error.
func (n *Node) Log() string { return n.log.String() }

// startTime bounds the start of a node.
const startTime = time.Minute

// Start starts the node, also again after its end, and waits until it is ready for requests and has its store.
func (n *Node) Start() error {
	if err := n.Begin(); err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		resp, err := client.Get(n.URL + "/readyz")
		if err == nil {
			body, _ := io.ReadAll(resp.Body) // its role without its store
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK && !strings.Contains(string(body), `"degraded"`) {
				return nil
			}
			err = fmt.Errorf("%s: %s", resp.Status, body)
		}
		if _, runs := n.Epoch(); !runs {
			return fmt.Errorf("%s has ended: %w\n%s", n.Name, err, n.Log())
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s is not ready: %w\n%s", n.Name, err, n.Log())
		}
	}
}

// Begin starts the node and does not wait.
func (n *Node) Begin() error {
	host, _, _ := net.SplitHostPort(n.address)
	peers, err := newProxy(net.JoinHostPort(host, fmt.Sprint(proxyPort)), net.JoinHostPort(host, fmt.Sprint(linkPort)), n.linkFrom)
	if err != nil {
		return err
	}
	cmd := exec.Command(n.weir, "serve", "--config", n.config)
	cmd.Dir, cmd.Stderr = n.c.dir, &n.log
	for _, pair := range cmd.Environ() {
		if !strings.HasPrefix(pair, "WEIR_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	for _, folder := range []string{"STATE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, fmt.Sprintf("XDG_%s_HOME=%s", folder, filepath.Join(n.c.dir, n.Name, folder)))
	}
	if err := n.run(cmd); err != nil {
		peers.close()
		return err
	}
	n.mu.Lock()
	n.peers = peers
	n.mu.Unlock()
	return nil
}

// linkFrom returns the link of a connection to this node.
func (n *Node) linkFrom(near *net.TCPConn) *Link {
	inode := inodeOf(near.RemoteAddr(), near.LocalAddr()) // reads a large table on a busy machine
	if inode == "" {
		return nil
	}
	for _, other := range n.c.Nodes {
		if other != n && owns(other.PID(), inode) {
			return n.c.Link(other, n)
		}
	}
	return nil
}

// Kill ends the node at once.
func (n *Node) Kill() {
	n.process.Kill()
	n.unlisten()
}

// Terminate asks the node to end, as an operator does, and waits until it has ended, at most for a time.
func (n *Node) Terminate(within time.Duration) error {
	ended := n.signal(syscall.SIGTERM)
	defer n.unlisten()
	select {
	case <-ended:
		return nil
	case <-time.After(within):
		n.process.Kill()
		return fmt.Errorf("%s has not ended %v after SIGTERM", n.Name, within)
	}
}

// unlisten closes the proxy of the peer link: a machine without a process there refuses connections.
func (n *Node) unlisten() {
	n.mu.Lock()
	peers := n.peers
	n.peers = nil
	n.mu.Unlock()
	if peers == nil {
		return
	}
	for _, other := range n.c.Nodes {
		if other != n {
			n.c.Link(other, n).Set(Open) // a stalled link holds connections
		}
	}
	peers.close()
}

// Remove makes the balancer send nothing to the node, as a Service does with a pod that is to end or not ready yet.
func (n *Node) Remove() { n.removed.Store(true) }

// Restore takes back Remove.
func (n *Node) Restore() { n.removed.Store(false) }

// next returns the nodes for a request: the one whose turn it is among those that run, and then the others.
func (c *Cluster) next() (all []*Node) {
	turn := int(c.turn.Add(1))
	for i := range c.Nodes {
		n := c.Nodes[(turn+i)%len(c.Nodes)]
		if _, runs := n.Epoch(); runs && !n.removed.Load() {
			all = append(all, n)
		}
	}
	return all
}

// errNoNode is the error of a request that finds no node that runs.
var errNoNode = errors.New("no node runs")

// balancer sends a request to the next node. One that cannot be reached has got nothing of it.
type balancer struct {
	c         *Cluster
	transport *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	var body []byte
	if r.ContentLength > 0 { // a transport closes the body of a request that it cannot send
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	err = errNoNode
	for _, n := range b.c.next() {
		if body != nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(n.URL, "http://")
		resp, err = b.transport.RoundTrip(r)
		var dial *net.OpError
		if err == nil || !errors.As(err, &dial) || dial.Op != "dial" {
			break
		}
	}
	return resp, err
}

// balance starts the balancer.
func (c *Cluster) balance(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", c.at(240, 0))
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{c, &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: &httputil.ReverseProxy{
		Transport: b, FlushInterval: -1, Rewrite: func(*httputil.ProxyRequest) {},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, err.Error())
		},
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	c.URL = "http://" + l.Addr().String()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		_ = server.Close()
		<-done
		b.transport.CloseIdleConnections()
	})
}
