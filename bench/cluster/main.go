package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == asComputers {
		if err := beComputers(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "computers:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// Sizes of the measurements.
const (
	warmUp   = 50
	turn     = 10  // calls at a node before it is the other one's turn
	sessions = 500 // of which memory and writes are measured
	// maxComputers bounds the Computers, of which there are as many as calls.
	maxComputers = 2000
	adopted      = 100 // sessions that another node takes over
	large        = 10 << 10
)

// run measures clusters of the sizes that args name after the number of calls, and prints a row for each.
func run(args []string, out io.Writer) error {
	calls := 1000
	if len(args) > 0 {
		var err error
		if calls, err = strconv.Atoi(args[0]); err != nil || calls < 1 {
			return fmt.Errorf("%q is no number of calls: cluster CALLS NODES…", args[0])
		}
		args = args[1:]
	}
	if len(args) == 0 {
		args = []string{"1", "2", "4", "8"}
	}
	const head = "| nodes | /mcps/up: same | other | ratio | ping: same | other | ratio | tool_execute: same | other | ratio | its CPU: same | other | 10 KB: same | other | ratio | initialize | adoption | ratio | writes a session | heap a session |"
	fmt.Fprintln(out, head)
	fmt.Fprintln(out, rule(head))
	var all []measured
	for _, arg := range args {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 || n > 64 {
			return fmt.Errorf("%q is no number of nodes from 1 to 64", arg)
		}
		m, err := measure(n, calls, out)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	fmt.Fprintf(out, "\n%s\n%s\n", growthHead, rule(growthHead))
	for _, m := range all {
		fmt.Fprintln(out, m.grown)
	}
	fmt.Fprintf(out, "\n/mcps/up has no sessions, so each node asks the server itself.\n\n%s\n%s\n", verdicts(all), all[len(all)-1].paper())
	return nil
}

// gateways is a cluster in this process.
type gateways struct {
	nats  *natsserver.Server
	nodes []*node
	up    string // URL of the MCP server behind all of them
	ends  []func()
}

type node struct {
	store   *nodestore.Store
	gateway *gateway.Gateway
	server  *web.Server
	front   *httptest.Server
}

const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// start starts a cluster. The caller ends it, with an error as well.
func start(n int) (g *gateways, err error) {
	g = &gateways{}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return g, err
	}
	g.ends = append(g.ends, func() { _ = os.RemoveAll(dir) })
	if g.nats, err = natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true}); err != nil {
		return g, err
	}
	g.nats.Start()
	g.ends = append(g.ends, func() { g.nats.Shutdown(); g.nats.WaitForShutdown() })
	if !g.nats.ReadyForConnections(10 * time.Second) {
		return g, errors.New("the NATS server does not start")
	}
	up := httptest.NewServer(http.HandlerFunc(echo))
	g.ends = append(g.ends, up.Close)
	g.up = up.URL + "/mcp"
	for i := range n {
		if err := g.join(fmt.Sprint("n", i), up.URL); err != nil {
			return g, err
		}
	}
	return g, nil
}

// echo is an MCP server without sessions whose tool returns its text.
func echo(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Arguments struct {
				Text json.RawMessage `json:"text"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	result := ""
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"echo","description":"Returns its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}`
	case "tools/call":
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, m.Params.Arguments.Text)
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case result == "":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

// join starts a node.
func (g *gateways) join(name, upstream string) error {
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	text := fmt.Sprintf("mode: gateway\nhub: {}\nmcpServers: {up: {url: %q, required: true}}\nstore: {at: \"nats://%s\", max_bytes: 256MB}\ncluster: {node: %s, key: %q, listen: \"127.0.0.1:0\"}\n",
		upstream+"/mcp", g.nats.Addr(), name, key)
	conf, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
	if err != nil {
		return err
	}
	n := &node{}
	if n.store, err = nodestore.Open(ctx, conf, log); err != nil {
		return err
	}
	if n.gateway, err = gateway.New(ctx, conf, gateway.Options{Version: "bench", Logger: log, Store: n.store}); err != nil {
		return err
	}
	if err := n.gateway.Ready(ctx); err != nil {
		return err
	}
	n.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.server.ServeHTTP(w, r) }))
	n.server = web.NewHandler(n.gateway, conf, n.front.URL, api.Machine{}, log)
	if l, trust := n.store.Node().Listener(); l != nil {
		n.server.Join(l, trust)
	}
	g.nodes = append(g.nodes, n)
	return nil
}

// leave ends a node in order.
func (n *node) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = n.server.Shutdown(ctx)
	n.front.Close()
	n.gateway.Close(ctx)
}

func (g *gateways) end() {
	for _, n := range g.nodes {
		n.leave()
	}
	for _, f := range slices.Backward(g.ends) {
		f()
	}
}

// post sends a message and returns the answer and the session.
func (n *node) post(path, session, body string) (answer []byte, made string, err error) {
	r, err := http.NewRequest(http.MethodPost, n.front.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, resp.Header.Get("Mcp-Session-Id"), err
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

// open makes a session and returns how long the handshake took.
func (n *node) open(path string) (session string, took time.Duration, err error) {
	began := time.Now()
	_, session, err = n.post(path, "", hello)
	return session, time.Since(began), err
}

// call makes a call and returns its time.
func (n *node) call(path, session, method, params, want string) (time.Duration, error) {
	began := time.Now()
	answer, _, err := n.post(path, session, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	took := time.Since(began)
	if err == nil && !bytes.Contains(answer, []byte(want)) {
		err = fmt.Errorf("a call was answered with %.300s", answer)
	}
	return took, err
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// compare measures calls of a session at its node and at another one, in turns.
func compare(same, other *node, path, method, params, want string, calls int) (times, cpu [2]time.Duration, err error) {
	session, _, err := same.open(path)
	if err != nil {
		return times, cpu, err
	}
	var all [2][]time.Duration
	for i := 0; i < warmUp+calls; i += turn {
		for j, n := range []*node{same, other} {
			used := telemetry.CPU()
			for range turn {
				took, err := n.call(path, session, method, params, want)
				if err != nil {
					return times, cpu, err
				}
				if i >= warmUp {
					all[j] = append(all[j], took)
				}
			}
			if i >= warmUp {
				cpu[j] += telemetry.CPU() - used
			}
		}
	}
	for j := range all {
		cpu[j] /= time.Duration(len(all[j]))
		times[j] = median(all[j])
	}
	return times, cpu, nil
}

// writes returns the number of changes that the store has taken.
func (g *gateways) writes() (last uint64, err error) {
	info, err := g.nats.Jsz(&natsserver.JSzOptions{Streams: true, Accounts: true})
	if err != nil {
		return 0, err
	}
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			last += stream.State.LastSeq
		}
	}
	return last, nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// keep measures the cost of sessions: writes to the store, without the writes of the nodes
// themselves, and memory.
func (g *gateways) keep() (writes, bytes float64, err error) {
	nodes := float64(len(g.nodes))
	before, size, began := uint64(0), heap(), time.Now()
	if before, err = g.writes(); err != nil {
		return 0, 0, err
	}
	for range sessions {
		if _, _, err := g.nodes[0].open("/mcp"); err != nil {
			return 0, 0, err
		}
	}
	after, err := g.writes()
	renewals := nodes * (time.Since(began).Seconds()/3 + 1)
	return max(0, (float64(after-before)-renewals)/sessions), (float64(heap()) - float64(size)) / sessions, err
}

// adoption measures the first request of sessions whose node has ended, and fresh handshakes at the same node.
func (g *gateways) adoption() (fresh, taken time.Duration, err error) {
	last := g.nodes[len(g.nodes)-1]
	var ids []string
	var a, b []time.Duration
	for range adopted {
		id, _, err := last.open("/mcp")
		if err != nil {
			return 0, 0, err
		}
		ids = append(ids, id)
	}
	g.nodes = g.nodes[:len(g.nodes)-1]
	last.leave()
	for _, id := range ids {
		_, took, err := g.nodes[0].open("/mcp")
		if err != nil {
			return 0, 0, err
		}
		a = append(a, took)
		began := time.Now()
		if _, _, err := g.nodes[0].post("/mcp", id, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); err != nil {
			return 0, 0, err
		}
		b = append(b, time.Since(began))
	}
	return median(a), median(b), nil
}

// measure prints the row of one size.
func measure(n, calls int, out io.Writer) (m measured, err error) {
	m = measured{nodes: n}
	g, err := start(n)
	defer g.end()
	if err != nil {
		return m, err
	}
	same, other := g.nodes[0], g.nodes[len(g.nodes)-1]
	id, err := echoID(same)
	if err != nil {
		return m, err
	}
	fmt.Fprintf(out, "| %d ", n)
	text := strings.Repeat("x", large)
	for i, c := range []struct{ path, method, params, want string }{
		{"/mcps/up/mcp", "tools/call", `{"name":"echo","arguments":{"text":"hello"}}`, "hello"},
		{"/mcp", "ping", `{}`, "{}"},
		{"/mcp", "tools/call", fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"text":"hello"}}}`, id), "hello"},
		{"/mcp", "tools/call", fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"text":%q}}}`, id, text), "xxx"},
	} {
		times, cpu, err := compare(same, other, c.path, c.method, c.params, c.want, calls)
		if err != nil {
			return m, err
		}
		fmt.Fprintf(out, "| %v | %v | %.2f ", times[0].Round(time.Microsecond), times[1].Round(time.Microsecond), float64(times[1])/float64(times[0]))
		m.ratios[i] = float64(times[1]) / float64(times[0])
		if i == 2 {
			m.hop = cpu[1] - cpu[0]
			fmt.Fprintf(out, "| %v | %v ", cpu[0].Round(time.Microsecond), cpu[1].Round(time.Microsecond))
		}
	}
	m.writes, m.session, err = g.keep()
	if err != nil {
		return m, err
	}
	computers := min(calls, maxComputers)
	m.computers, err = g.grow(computers, officeSize)
	if err != nil {
		return m, err
	}
	offices := min(calls, maxOffices)
	single, err := g.grow(offices, 1)
	if err != nil {
		return m, err
	}
	m.agents, err = g.enlist(min(calls, maxAgents))
	if err != nil {
		return m, err
	}
	m.grown = m.computers.row(n, computers) + officeCost(m.computers, single) + m.agents.columns()
	if n == 1 {
		fmt.Fprint(out, "| | | ")
	} else {
		fresh, taken, err := g.adoption()
		if err != nil {
			return m, err
		}
		m.adoption = float64(taken) / float64(cmp.Or(fresh, 1))
		fmt.Fprintf(out, "| %v | %v | %.2f ", fresh.Round(time.Microsecond), taken.Round(time.Microsecond), m.adoption)
	}
	fmt.Fprintf(out, "| %.2f | %.1f KB |\n", m.writes, m.session/1024)
	return m, nil
}

// echoID returns the tool_id of echo.
func echoID(n *node) (string, error) {
	session, _, err := n.open("/mcp")
	if err != nil {
		return "", err
	}
	answer, _, err := n.post("/mcp", session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"echo"}}}`)
	if err != nil {
		return "", err
	}
	const mark = "up:echo#"
	at := bytes.Index(answer, []byte(mark))
	if at < 0 || len(answer) < at+len(mark)+8 {
		return "", fmt.Errorf("echo is not listed: %.300s", answer)
	}
	return string(answer[at : at+len(mark)+8]), nil
}
