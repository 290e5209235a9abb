package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/host/child"
)

// cluster is the processes and the balancer before them.
type cluster struct {
	url   string // of the balancer
	store string // address of the NATS server
	nodes []*node

	dir    string
	keeper child.Keeper
	nats   *process
	ends   []func()
}

// startTime bounds the start of a process, also on a busy machine.
const startTime = 2 * time.Minute

// start starts all processes and waits until they are ready.
func start(ctx context.Context, o options, server string) (c *cluster, err error) {
	dir, err := os.MkdirTemp("", "weir-cluster-")
	if err != nil {
		return nil, err
	}
	c = &cluster{dir: dir}
	begun := c
	defer func() {
		if err != nil {
			begun.close()
		}
	}()
	if o.weir == "" {
		o.weir = filepath.Join(dir, "weir.exe")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.weir, "github.com/weir-mcp/weir/cmd/weir")
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building weir: %w\n%s", err, text)
		}
	}
	ports, err := freePorts(1 + 2*o.nodes)
	if err != nil {
		return nil, err
	}
	nats := fmt.Sprintf("127.0.0.1:%d", ports[0])
	c.store = nats
	if err := c.startNATS(nats); err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	for i := range o.nodes {
		n := &node{name: fmt.Sprint("n", i), address: fmt.Sprintf("127.0.0.1:%d", ports[1+2*i]), weir: o.weir, c: c}
		n.config = filepath.Join(dir, n.name+".yaml")
		link := fmt.Sprintf("127.0.0.1:%d", ports[2+2*i])
		text := fmt.Sprintf(`listen: %q
mode: gateway
store: {at: "nats://%s", max_bytes: 64MB}
cluster: {node: %s, key: %q, listen: %q, advertise: %q}
mcpServers: {counter: {url: %q, required: true, timeout: %v}}
hub: {}
rate_limits: {tool_browse: {max_calls_per_minute: %d}}
`, n.address, nats, n.name, base64.StdEncoding.EncodeToString(secret), link, link, server, callTimeout, browsesMinute)
		if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	results := make(chan error)
	for _, n := range c.nodes {
		go func() { results <- n.start(ctx) }()
	}
	for range c.nodes {
		err = errors.Join(err, <-results)
	}
	if err != nil {
		return nil, err
	}
	return c, c.balance()
}

func (c *cluster) close() {
	for _, end := range c.ends {
		end()
	}
	for _, n := range c.nodes {
		n.kill()
	}
	if c.nats != nil {
		c.nats.kill()
	}
	c.keeper.Close()
	_ = os.RemoveAll(c.dir)
}

// freePorts returns ports that are free now. They are below those that systems give to outgoing connections: a node
// that starts again finds its own still free.
func freePorts(n int) (ports []int, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	var seed [2]byte
	_, _ = rand.Read(seed[:])
	for port := 20000 + (int(seed[0])<<8|int(seed[1]))%8000; len(ports) < n; port++ {
		if port > 32000 {
			return nil, errors.New("no free ports between 20000 and 32000")
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			held, ports = append(held, l), append(ports, port)
		}
	}
	return ports, nil
}

// process is a running program.
type process struct {
	cmd   *exec.Cmd
	group *child.Group
	ended chan struct{}
}

// run starts a program that ends with this process.
func (c *cluster) run(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	group, err := c.keeper.Start(func(attr *syscall.SysProcAttr) (int, error) {
		cmd.SysProcAttr = attr
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	if err != nil {
		return nil, err
	}
	p.group = group
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
		group.Reap()
	}()
	return p, nil
}

// kill ends the process at once, as SIGKILL does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// asNATS is the argument that makes this program the NATS server. The address and the folder follow.
const asNATS = "as-nats-server"

// startNATS starts this program as a NATS server.
func (c *cluster) startNATS(address string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, asNATS, address, filepath.Join(c.dir, "nats"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if c.nats, err = c.run(cmd); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && line != "ready\n" {
		err = errors.New(strings.TrimSpace(line))
	}
	if err != nil {
		return fmt.Errorf("the NATS server has not started: %w", err)
	}
	return nil
}

// serveNATS is the NATS server if this process was started as one.
func serveNATS() bool {
	if len(os.Args) != 4 || os.Args[1] != asNATS {
		return false
	}
	host, port, _ := net.SplitHostPort(os.Args[2])
	number, _ := strconv.Atoi(port)
	s, err := natsserver.NewServer(&natsserver.Options{Host: host, Port: number, JetStream: true, StoreDir: os.Args[3], NoSigs: true})
	if err != nil {
		fmt.Println(err)
		return true
	}
	s.Start()
	if !s.ReadyForConnections(startTime) {
		fmt.Println("it does not listen at", os.Args[2])
		return true
	}
	fmt.Println("ready")
	s.WaitForShutdown()
	return true
}

// node is one weir.
type node struct {
	name, address string

	c            *cluster
	weir, config string

	mu    sync.Mutex // guards below
	p     *process
	ready bool // since the last start
}

// start starts the node, also again after kill, and waits until it is ready for requests.
func (n *node) start(ctx context.Context) error {
	cmd := exec.Command(n.weir, "serve", "--config", n.config)
	cmd.Dir = n.c.dir
	log, err := os.OpenFile(filepath.Join(n.c.dir, n.name+".log"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	for _, pair := range cmd.Environ() {
		if !strings.HasPrefix(pair, "WEIR_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	for _, folder := range []string{"STATE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, fmt.Sprintf("XDG_%s_HOME=%s", folder, filepath.Join(n.c.dir, n.name, folder)))
	}
	p, err := n.c.run(cmd)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.p, n.ready = p, false
	n.mu.Unlock()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(startTime); ; {
		resp, err := client.Get("http://" + n.address + "/readyz")
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK && !strings.Contains(string(body), `"degraded"`) { // it has its store
				n.mu.Lock()
				n.ready = true
				n.mu.Unlock()
				return nil
			}
			err = errors.New(resp.Status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return fmt.Errorf("%s has ended: %s", n.name, n.log())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s is not ready: %w: %s", n.name, err, n.log())
		}
	}
}

// log returns the end of what the node has written to standard error.
func (n *node) log() string {
	text, err := os.ReadFile(filepath.Join(n.c.dir, n.name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}

// kill ends the node without a word. The balancer finds out by itself.
func (n *node) kill() {
	n.mu.Lock()
	p := n.p
	n.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// isReady reports whether the node may get requests: it was ready after its last start, and may have been killed since.
func (n *node) isReady() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}
