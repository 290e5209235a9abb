package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/passthrough"
)

// agentConfig has a quick tool, one that fails, an async one, and a resource.
const agentConfig = `
name: stock
tools:
  - {name: say, command: /bin/sh, args: [-c, "cat"]}
  - {name: bad, command: /bin/sh, args: [-c, "echo broken >&2; exit 3"]}
  - {name: later, async: true, command: /bin/sh, args: [-c, "echo working >&2; echo done"]}
  - {name: never, async: true, command: /bin/sh, args: [-c, "sleep 60"]}
resources:
  - {name: hours, uri: "stock://hours", mimeType: text/plain, command: /bin/echo, args: [always]}
`

// startAgent starts an agent server on a free port.
func startAgent(t *testing.T, config string, env []string, args ...string) *server {
	t.Helper()
	path := writeConfig(t, "agent.yaml", config)
	return startWith(t, env, path, append([]string{"agent", "--config", path, "--port", "0"}, args...)...)
}

// tokens makes auth.tokens out of "name: keys" entries; a token is its name.
func tokens(entries ...string) string {
	var b strings.Builder
	b.WriteString("auth:\n  tokens:\n")
	for _, e := range entries {
		name, keys, _ := strings.Cut(e, ":")
		sum := sha256.Sum256([]byte(name))
		fmt.Fprintf(&b, "    - {name: %s, sha256: %s%s}\n", name, hex.EncodeToString(sum[:]), keys)
	}
	return b.String()
}

// ask posts to an agent as callers do that know no sessions, and returns the
// HTTP status and the body.
func ask(t *testing.T, at, token, method, params string) (int, string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":"q","method":"` + method + `","params":` + params + `}`
	return send(t, http.MethodPost, at, token, body)
}

func send(t *testing.T, method, at, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// until repeats a question until its answer holds a text.
func until(t *testing.T, want string, question func() string) string {
	t.Helper()
	var got string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if got = question(); strings.Contains(got, want) {
			return got
		}
	}
	t.Fatalf("not in 15 s: %s; it is %s", want, got)
	return ""
}

// TestRegisteredAgent: an agent makes itself known with its token, is called
// within the scopes of others, knows on whose behalf, and leaves.
func TestRegisteredAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, tokens("agent:, register: [stock], agents: [nothing]", "ann:", `bob:, agents: ["st*"]`, "eve:, agents: [other]")+"mcpServers: {}\nagents: {lease: 3s}\n")
	a := startAgent(t, agentConfig, []string{"AGENT_TOKEN=agent"}, "--router", s.base)
	at := s.base + "/mcps/stock/mcp"
	until(t, `"id":"q","result"`, func() string {
		_, body := ask(t, at, "ann", "tools/call", `{"name":"say","arguments":{}}`)
		return body
	})

	t.Run("scopes", func(t *testing.T) {
		for _, c := range []struct {
			token, path, body string
			status            int
			want              string
		}{
			{"bob", "/mcps/stock/mcp", `{"jsonrpc":"2.0","id":"q","method":"tools/list"}`, 200, `"say"`},
			{"eve", "/mcps/stock/mcp", `{"jsonrpc":"2.0","id":"q","method":"tools/list"}`, 403, "permission_denied"},
			{"agent", "/mcps/stock/mcp", `{"jsonrpc":"2.0","id":"q","method":"tools/list"}`, 403, "permission_denied"},
			{"eve", "/mcp", `{"jsonrpc":"2.0","id":"q","method":"tools/list"}`, 403, `"id":"q"`},
			{"", "/mcps/stock/mcp", `{"jsonrpc":"2.0","id":"q","method":"tools/list"}`, 401, "bearer token"},
			{"bob", "/agents", `{"name":"stock","instance":"x","port":1}`, 403, "auth.tokens[].register"},
			{"bob", "/mcps/stuff/mcp", `{"jsonrpc":"2.0","id":"q","method":"tools/list"}`, 404, `"agents":["stock"]`},
			{"eve", "/mcps/other/mcp", `{"jsonrpc":"2.0","id":"q","method":"tools/list"}`, 404, `"agents":[]`},
		} {
			if status, body := send(t, http.MethodPost, s.base+c.path, c.token, c.body); status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%s at %s: %d %s", c.token, c.path, status, body)
			}
		}
		if _, body := get(t, s.base+"/healthz", "Authorization", "Bearer eve"); strings.Contains(body, "stock") {
			t.Errorf("eve learns of the agent: %s", body)
		}
	})

	t.Run("tasks belong to who made them", func(t *testing.T) {
		_, body := ask(t, at, "ann", "tools/call", `{"name":"later","arguments":{}}`)
		var made struct {
			Result struct {
				TaskID string `json:"taskId"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(body), &made); err != nil || made.Result.TaskID == "" {
			t.Fatalf("no task: %s", body)
		}
		task := s.base + "/mcps/stock/task?taskId=" + made.Result.TaskID
		until(t, `"status":"completed"`, func() string { _, body := send(t, http.MethodGet, task, "ann", ""); return body })
		if status, body := send(t, http.MethodGet, task, "bob", ""); status != http.StatusNotFound {
			t.Errorf("bob reads ann's task: %d %s", status, body)
		}
		if status, body := send(t, http.MethodGet, task, "eve", ""); status != http.StatusForbidden {
			t.Errorf("eve reads ann's task: %d %s", status, body)
		}
	})

	t.Run("status", func(t *testing.T) {
		var data struct {
			Status string
			Agents map[string]passthrough.AgentStatus
		}
		_, body := get(t, s.base+"/status/data", "Authorization", "Bearer bob")
		if err := json.Unmarshal([]byte(body), &data); err != nil {
			t.Fatal(err)
		}
		stock := data.Agents["stock"]
		if data.Status != "ok" || stock.Health != "ok" || stock.Queue == nil || stock.Queue.Concurrency != 1 || stock.Source != "registered" || stock.Endpoint != "/mcps/stock/mcp" {
			t.Errorf("%s", body)
		}
		if _, body := get(t, s.base+"/status/data", "Authorization", "Bearer eve"); strings.Contains(body, "stock") {
			t.Errorf("eve learns of the agent: %s", body)
		}
		if status, body := get(t, s.base+"/status"); status != http.StatusOK || !strings.Contains(body, "<h1>Agents</h1>") || strings.Contains(body, "stock") {
			t.Errorf("the page: %d %s", status, body)
		}
	})

	t.Run("leaves", func(t *testing.T) {
		if _, code := a.end(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d\n%s", code, a.stderr)
		}
		if status, body := ask(t, at, "ann", "tools/list", "{}"); status != http.StatusNotFound || !strings.Contains(body, "Agent 'stock' not found") {
			t.Errorf("after it left: %d %s", status, body)
		}
	})
}

// TestAgentKilled: an agent that cannot leave is unreachable, and forgotten when
// its lease has run out.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\nagents: {lease: 2s}\n")
	a := startAgent(t, agentConfig, nil, "--router="+s.base)
	at := s.base + "/mcps/stock/mcp"
	until(t, `"say"`, func() string { _, body := ask(t, at, "", "tools/list", "{}"); return body })
	if _, code := a.end(syscall.SIGKILL); code == 0 {
		t.Errorf("exit code %d", code)
	}
	status, body := ask(t, at, "", "tools/list", "{}")
	if status != http.StatusBadGateway && status != http.StatusServiceUnavailable && status != http.StatusNotFound || !strings.Contains(body, `"id":"q"`) {
		t.Errorf("killed: %d %s", status, body)
	}
	until(t, "Agent 'stock' not found", func() string { _, body := ask(t, at, "", "tools/list", "{}"); return body })
}

// TestRoutingFile: the agents of routing.json come and go with the file, and its
// port is the router's.
func TestRoutingFile(t *testing.T) {
	t.Parallel()
	a := startAgent(t, agentConfig, nil)
	port := strings.TrimPrefix(a.base, "http://127.0.0.1:")
	path := writeConfig(t, "weir.yaml", "agents: {routing: routing.json}\nmcpServers: {own: {url: \""+a.base+"/mcp\"}}\n")
	routing := filepath.Join(filepath.Dir(path), "routing.json")
	write := func(text string) {
		if err := os.WriteFile(routing, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	write(fmt.Sprintf(`{"port": %d, "routes": {"stock": {"container": "x", "hostPort": %s}, "own": {"hostPort": 1}}}`, free, port))
	s := start(t, path, "serve", "--config", path)
	if want := fmt.Sprintf("http://127.0.0.1:%d", free); s.base != want {
		t.Errorf("listens at %s, want %s", s.base, want)
	}
	if status, body := ask(t, s.base+"/mcps/stock/mcp", "", "tools/list", "{}"); status != http.StatusOK {
		t.Errorf("an agent of the file: %d %s", status, body)
	}
	if status, body := ask(t, s.base+"/mcp/own/mcp", "", "tools/list", "{}"); status != http.StatusOK {
		t.Errorf("the configuration's own server: %d %s", status, body)
	}
	write(`{"routes": `)
	time.Sleep(1200 * time.Millisecond) // a broken file changes nothing
	if status, body := ask(t, s.base+"/mcps/stock/mcp", "", "tools/list", "{}"); status != http.StatusOK {
		t.Errorf("with a broken file: %d %s", status, body)
	}
	write(`{"routes": {"other": {"hostPort": "` + port + `"}}}`)
	until(t, `"say"`, func() string { _, body := ask(t, s.base+"/mcps/other/mcp", "", "tools/list", "{}"); return body })
	if status, body := ask(t, s.base+"/mcps/stock/mcp", "", "tools/list", "{}"); status != http.StatusNotFound || !strings.Contains(body, `"agents":["other","own"]`) {
		t.Errorf("an agent that is gone: %d %s", status, body)
	}
}

// TestInvocationKeys: with a key, an agent answers its router only.
func TestInvocationKeys(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	privatePath := write("private.pem", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(public)
	publicPath := write("public.pem", "PUBLIC KEY", der, err)
	secret := strings.Repeat("0123456789abcdef", 2)
	for _, c := range []struct {
		name, config string
		env, args    []string
	}{
		{"EdDSA", "private_key: " + privatePath, nil, []string{"--invocation-key", publicPath}},
		{"HS256", "secret: " + secret, []string{"AGENT_INVOCATION_SECRET=" + secret}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, agentConfig, c.env, c.args...)
			s := serve(t, "agents: {invocation: {"+c.config+"}}\nmcpServers: {stock: {url: \""+a.base+"/mcp\", agent: true}, plain: {url: \""+a.base+"/mcp\"}}\n")
			until(t, `"say"`, func() string { _, body := ask(t, s.base+"/mcps/stock/mcp", "", "tools/list", "{}"); return body })
			if status, body := ask(t, s.base+"/mcps/stock/mcp", "", "tools/call", `{"name":"say","arguments":{}}`); status != http.StatusOK || !strings.Contains(body, `\"principal\":\"local\"`) {
				t.Errorf("through the router: %d %s", status, body)
			}
			if status, body := ask(t, a.base+"/mcp", "", "tools/list", "{}"); status != http.StatusUnauthorized {
				t.Errorf("past the router: %d %s", status, body)
			}
			if status, body := ask(t, s.base+"/mcps/plain/mcp", "", "tools/list", "{}"); status == http.StatusOK {
				t.Errorf("through the router without agent: true: %d %s", status, body)
			}
		})
	}
}

// TestCallAgent: the shell calls a tool of an agent and ends as the tool did.
func TestCallAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\nagents: {lease: 5s}\n")
	startAgent(t, agentConfig, nil, "--router="+s.base)
	until(t, `"say"`, func() string { _, body := ask(t, s.base+"/mcps/stock/mcp", "", "tools/list", "{}"); return body })
	call := func(args ...string) finished {
		return weir(t, append([]string{"call", "--url", s.url, "--agent", "stock"}, args...)...)
	}
	call("say", "--arg", "n=1").want(t, exitOK, `"input":{"n":1}`)
	call("say", "--json", `{"n":2}`, "-o", "json").want(t, exitOK, `"structuredContent"`, `"n": 2`)
	call("later").want(t, exitOK, "done")
	call("bad").want(t, exitTool, "broken")
	call("nosuch").want(t, exitUsage, "Tool 'nosuch' not found", "there are: bad, later, never, say")
	weir(t, "call", "--url", s.url, "--agent", "nobody", "say").want(t, exitUsage, "Agent 'nobody' not found", "there are: stock")
	weir(t, "call", "--url", "http://127.0.0.1:1", "--agent", "stock", "say").want(t, exitUnavailable, "the router at http://127.0.0.1:1 refused the connection")
	weir(t, "call", "--config", "x", "--agent", "stock", "say").want(t, exitUsage, "--server and --config")
	port := strings.TrimPrefix(s.base, "http://127.0.0.1:")
	weir(t, "ROUTER_HOST=127.0.0.1", "ROUTER_PORT="+port, "call", "--agent", "stock", "say").want(t, exitOK, `"tool":"say"`)
}

// TestAgentExample: an agent whose tool calls another agent does so through the
// router, with its own token.
func TestAgentExample(t *testing.T) {
	t.Parallel()
	s := serve(t, tokens("stock:, register: [stock]", "planner:, register: [planner], agents: [stock]", "ann:, agents: [planner]")+"mcpServers: {}\nagents: {lease: 5s}\n")
	port := strings.TrimPrefix(s.base, "http://127.0.0.1:")
	env := func(token string) []string {
		return []string{"AGENT_TOKEN=" + token, "ROUTER_HOST=127.0.0.1", "ROUTER_PORT=" + port, "AGENT_PORT=0", "PATH=" + filepath.Dir(weirBin) + ":" + os.Getenv("PATH")}
	}
	examples, err := filepath.Abs("../../examples/agents")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stock", "planner"} {
		path := filepath.Join(examples, name+".yaml")
		startWith(t, env(name), path, "agent", "--config", path, "--router")
	}
	got := until(t, `up to 12`, func() string {
		_, body := ask(t, s.base+"/mcps/planner/mcp", "ann", "tools/call", `{"name":"can_ship","arguments":{}}`)
		return body
	})
	if !strings.Contains(got, `"id":"q"`) {
		t.Errorf("%s", got)
	}
	if status, body := ask(t, s.base+"/mcps/stock/mcp", "ann", "tools/list", "{}"); status != http.StatusForbidden {
		t.Errorf("ann reaches what only the planner may: %d %s", status, body)
	}
}

// TestAgentUsage: what is wrong with flags and variables is said before anything
// listens.
func TestAgentUsage(t *testing.T) {
	t.Parallel()
	path, taken := writeConfig(t, "agent.yaml", agentConfig), listenLocal(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"agent"}, "There is no mcp-config.json"},
		{[]string{"AGENT_PORT=x", "agent", "--config", path}, "AGENT_PORT is \"x\""},
		{[]string{"AGENT_CONCURRENCY=0", "agent", "--config", path}, "AGENT_CONCURRENCY"},
		{[]string{"agent", "--config", path, "--listen", "0.0.0.0:0"}, "reached from other machines"},
		{[]string{"agent", "--config", path, "--listen", "127.0.0.1:0", "--port", "1"}, "keep one of them"},
		{[]string{"agent", "--config", path, "--port", "70000"}, "--port 70000"},
		{[]string{"agent", "--config", path, "extra"}, "takes flags only"},
		{[]string{"agent", "--config", path, "--port", "0", "--router", "nonsense"}, "router"},
		{[]string{"agent", "--config", path, "--invocation-key", path}, "is no PEM file"},
		{[]string{"AGENT_INVOCATION_SECRET=short", "agent", "--config", path}, "32 bytes"},
		{[]string{"agent", "--config", writeConfig(t, "agent.yaml", "tools:\n  - {name: a, commandd: b}\n"), "--port", taken}, "commandd"},
	} {
		weir(t, c.args...).want(t, exitUsage, c.want)
	}
}

// TestAgentPort: a flag goes before a variable, and that before the file.
func TestAgentPort(t *testing.T) {
	t.Parallel()
	taken, other := listenLocal(t), listenLocal(t)
	path := writeConfig(t, "agent.yaml", "port: "+taken+"\n"+agentConfig)
	for _, c := range []struct {
		args []string
		port string
	}{
		{[]string{"agent", "--config", path}, taken},
		{[]string{"AGENT_PORT=" + other, "agent", "--config", path}, other},
		{[]string{"AGENT_PORT=1", "agent", "--config", path, "--port", other}, other},
	} {
		weir(t, c.args...).want(t, exitUsage, "127.0.0.1:"+c.port)
	}
}

// listenLocal takes a port until the test ends, and returns it.
func listenLocal(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// TestAgentsChangeUnderLoad: agents that come and go disturb no call of another.
func TestAgentsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	a := startAgent(t, strings.Replace(agentConfig, "name: stock", "name: stock\nconcurrency: 8", 1), nil)
	port := strings.TrimPrefix(a.base, "http://127.0.0.1:")
	path := writeConfig(t, "weir.yaml", "agents: {routing: routing.json, lease: 1s}\nmcpServers: {}\n")
	routing := filepath.Join(filepath.Dir(path), "routing.json")
	write := func(others int) {
		routes := map[string]any{"stock": map[string]string{"hostPort": port}}
		for i := range others {
			routes[fmt.Sprintf("other%d", i)] = map[string]string{"hostPort": port}
		}
		data, err := json.Marshal(map[string]any{"routes": routes})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(routing, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	s := start(t, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	at := s.base + "/mcps/stock/mcp"
	until(t, `"say"`, func() string { _, body := ask(t, at, "", "tools/list", "{}"); return body })
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var calls atomic.Int64
	for n := range 8 {
		callers.Go(func() {
			c := httpClient(t)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d-%d","method":"tools/call","params":{"name":"say","arguments":{"n":%d}}}`, n, i, i)
				resp, err := c.Post(at, "application/json", strings.NewReader(body))
				if err != nil {
					t.Errorf("caller %d: %v", n, err)
					return
				}
				data, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := fmt.Sprintf(`{\"n\":%d}`, i); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(data), want) {
					t.Errorf("caller %d: %d %s %v", n, resp.StatusCode, data, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for round := range 4 {
		write(round%2*3 + 1)
		name := fmt.Sprintf("guest%d", round)
		if status, body := send(t, http.MethodPost, s.base+"/agents", "", `{"name":"`+name+`","instance":"1","port":`+port+`}`); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		until(t, `"say"`, func() string { _, body := ask(t, s.base+"/mcps/"+name+"/mcp", "", "tools/list", "{}"); return body })
		until(t, `"say"`, func() string { _, body := ask(t, s.base+"/mcps/other0/mcp", "", "tools/list", "{}"); return body })
		send(t, http.MethodDelete, s.base+"/agents/"+name+"?instance=1", "", "")
	}
	close(stop)
	callers.Wait()
	if n := calls.Load(); n < 50 {
		t.Errorf("only %d calls", n)
	}
}
