package cli

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// A desk is a Computer "desk" with one server "excel", whose name may be bound to its
// key.
type desk struct {
	dir, key string
	bound    bool
}

func newDesk(t *testing.T, bound bool) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir(), bound: bound}
	text := fmt.Sprintf(`{"mcpServers":{"excel":{"command":%q,"args":["-name","excel"],"default_tool_meta":{"auto_apply":true}}}}`, fakeBin)
	if err := os.WriteFile(filepath.Join(d.dir, "mcp.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if bound {
		d.key = strings.TrimSpace(weir(t, "@"+d.dir, "computer", "--key", "k.pem", "--show-key").want(t, exitOK).stdout)
	}
	return d
}

// hub is the configuration's part about the hub.
func (d *desk) hub() string {
	if d.bound {
		return fmt.Sprintf("hub: {computers: {desk: {key: %q}}}\n", d.key)
	}
	return "hub: {}\n"
}

// start starts the Computer and waits until its server is an upstream.
func (d *desk) start(t *testing.T, s *server) *computerProcess {
	t.Helper()
	args := []string{"--hub", s.base, "--name", "desk", "--config", filepath.Join(d.dir, "mcp.json")}
	if d.bound {
		args = append(args, "--key", filepath.Join(d.dir, "k.pem"))
	}
	p := startComputer(t, d.dir, "", args...)
	s.await("the Computer's server is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-excel"].Tools > 0 })
	return p
}

// end ends the Computer and waits until weir knows.
func (d *desk) end(s *server, p *computerProcess) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.exited
	s.await("the Computer has left", func(h gateway.Health) bool { _, there := h.Upstreams["desk-excel"]; return !there })
}

// register posts a registration and returns the status and the answer.
func (s *server) register(name, token string) (int, string) {
	return send(s.t, http.MethodPost, s.base+"/agents", token, `{"name":"`+name+`","instance":"thief","url":"http://127.0.0.1:1/mcp"}`)
}

// findings are those of /catalog.
func (s *server) findings() string {
	_, body := get(s.t, s.base+"/catalog")
	var info struct{ Findings []string }
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(info.Findings, "\n")
}

// TestRegistrationTakesNoComputer: none of the names of a Computer and of its servers
// can be registered, however written, while it is there and while it is away; and what
// its tools' ids and its paths lead to is the Computer's, always.
func TestRegistrationTakesNoComputer(t *testing.T) {
	t.Parallel()
	for _, bound := range []bool{true, false} {
		t.Run(fmt.Sprintf("bound=%t", bound), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, bound)
			s := serve(t, "mcpServers: {}\n"+d.hub())
			names := []string{"desk-excel", "Desk-Excel", "DESK-EXCEL", "desk", "Desk", "desk.excel", "DESK.excel"}
			refused := func(when string) {
				t.Helper()
				for _, name := range names {
					if status, body := s.register(name, ""); status != http.StatusConflict || !strings.Contains(body, `the Computer \"desk\"`) || !strings.Contains(body, "another name") {
						t.Errorf("%s, %s: %d %s", when, name, status, body)
					}
				}
			}
			if bound {
				refused("before it has come")
				names = append(names, "desk-word", "Desk.Word") // of servers that it may have
				refused("before it has come")
			}
			p := d.start(t, s)
			id := s.tool("desk-excel:echo")
			refused("while it is there")
			works := func() {
				t.Helper()
				weir(t, "call", "--url", s.url, id, "--json", `{"text":"from afar"}`).want(t, exitOK, "from afar")
				for _, path := range []string{"/mcps/desk.excel/mcp", "/mcps/desk/mcp", "/mcps/desk-excel/mcp"} {
					if status, body := ask(t, s.base+path, "", "tools/call", `{"name":"echo","arguments":{"text":"as it is"}}`); status != http.StatusOK || !strings.Contains(body, "as it is") {
						t.Errorf("%s: %d %s", path, status, body)
					}
				}
			}
			works()
			d.end(s, p)
			refused("while it is away")
			d.start(t, s)
			if again := s.tool("desk-excel:echo"); again != id {
				t.Errorf("its id is %s, and was %s", again, id)
			}
			refused("when it is back")
			works()
			if status, body := s.register("desktop", ""); status != http.StatusOK {
				t.Errorf("a name that is free: %d %s", status, body)
			}
		})
	}
}

// TestComputerTakesNoAgent: a Computer has none of the names of an agent that was
// there first. Its other servers are upstreams, and what is left out is told.
func TestComputerTakesNoAgent(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	s := serve(t, "mcpServers: {}\n"+d.hub())
	a := startAgent(t, strings.Replace(agentConfig, "name: stock", "name: desk-excel", 1), nil, "--router", s.base)
	s.await("the agent is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-excel"].Tools > 0 })
	id := s.tool("desk-excel:say")
	startComputer(t, d.dir, "", "--hub", s.base, "--name", "desk", "--config", filepath.Join(d.dir, "mcp.json"))
	until(t, "name_taken", s.findings)
	for _, part := range []string{`the MCP server "excel" of the Computer "desk" is left out`, `belongs to the agent "desk-excel"`, "--name"} {
		if text := s.findings(); !strings.Contains(text, part) || !strings.Contains(s.stderr.String(), strings.ReplaceAll(part, `"`, `\"`)) {
			t.Errorf("no %s in the findings %s, or in the log", part, text)
		}
	}
	if got := s.tool("desk-excel:say"); got != id {
		t.Errorf("%s is %s now", id, got)
	}
	// The name stays the agent's when it has left.
	if _, code := a.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.await("the agent has left", func(h gateway.Health) bool { _, there := h.Upstreams["desk-excel"]; return !there })
	if text := s.findings(); !strings.Contains(text, `"excel" of the Computer "desk" is left out`) {
		t.Errorf("findings %s", text)
	}
}

// TestNamespaceStaysWithItsAgent: who may register "Stock" gets neither the name nor
// the namespace of "stock", while that is there and after it has left.
func TestNamespaceStaysWithItsAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, tokens("ann:, register: [stock, st.ock]", "bob:, register: [Stock, STOCK, stock, st.ock]", "all:")+"mcpServers: {}\n")
	a := startAgent(t, agentConfig, []string{"AGENT_TOKEN=ann"}, "--router", s.base)
	at := s.base + "/mcps/stock/mcp"
	until(t, `"say"`, func() string { _, body := ask(t, at, "all", "tools/list", "{}"); return body })
	refused := func() {
		t.Helper()
		for _, name := range []string{"Stock", "STOCK", "stock"} {
			if status, body := s.register(name, "bob"); status != http.StatusConflict || !strings.Contains(body, `the agent \"stock\" of \"ann\"`) && !strings.Contains(body, "an agent that is registered") {
				t.Errorf("%s: %d %s", name, status, body)
			}
			if status, body := ask(t, s.base+"/mcps/Stock/mcp", "all", "tools/list", "{}"); status != http.StatusNotFound {
				t.Errorf("/mcps/Stock/mcp: %d %s", status, body)
			}
		}
	}
	refused()
	if _, code := a.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	until(t, "not found", func() string { _, body := ask(t, at, "all", "tools/list", "{}"); return body })
	refused()
	startAgent(t, agentConfig, []string{"AGENT_TOKEN=ann"}, "--router", s.base)
	until(t, `"say"`, func() string { _, body := ask(t, at, "all", "tools/list", "{}"); return body })
	refused()
	// Two names with one namespace are one.
	if status, body := s.register("st.ock", "ann"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.register("st.ock", "bob"); status != http.StatusConflict {
		t.Errorf("%d %s", status, body)
	}
}

// TestDisplacedServerComesBack: a server of the configuration takes the place of a
// Computer's, which is offered again when the configuration drops it.
func TestDisplacedServerComesBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	s := serve(t, "mcpServers: {}\n"+d.hub())
	d.start(t, s)
	id := s.tool("desk-excel:echo")
	write := func(servers string) {
		t.Helper()
		if err := os.WriteFile(s.config, []byte("mcpServers: {"+servers+"}\n"+d.hub()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("desk-excel: {command: %q}", fakeBin))
	until(t, "name_taken", s.findings)
	if text := s.findings(); !strings.Contains(text, "belongs to mcpServers.desk-excel") {
		t.Errorf("findings %s", text)
	}
	write("")
	s.await("the Computer's server is offered again", func(h gateway.Health) bool {
		return h.Upstreams["desk-excel"].Tools > 0 && h.Upstreams["desk-excel"].Pid == 0
	})
	if again := s.tool("desk-excel:echo"); again != id {
		t.Errorf("its id is %s, and was %s", again, id)
	}
	if text := s.findings(); strings.Contains(text, "name_taken") {
		t.Errorf("findings %s", text)
	}
	weir(t, "call", "--url", s.url, id, "--json", `{"text":"from afar"}`).want(t, exitOK, "from afar")
}

// TestRoutingTakesNoName: an agent of routing.json whose name is another's is left out
// with a word and a finding, and the others are used.
func TestRoutingTakesNoName(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	path := writeConfig(t, "weir.yaml", "agents: {routing: routing.json}\nmcpServers: {own: {command: \"%FAKE%\"}}\n"+d.hub())
	routing := filepath.Join(filepath.Dir(path), "routing.json")
	write := func(text string) {
		if err := os.WriteFile(routing, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"routes": {}}`)
	s := start(t, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	a := startAgent(t, agentConfig, nil, "--router", s.base)
	s.await("the agent is an upstream", func(h gateway.Health) bool { return h.Upstreams["stock"].Tools > 0 })
	d.start(t, s)
	port := strings.TrimPrefix(a.base, "http://127.0.0.1:")
	write(fmt.Sprintf(`{"routes": {"Desk-Excel": {"hostPort": %[1]s}, "desk": {"hostPort": %[1]s}, "Stock": {"hostPort": %[1]s}, "Own": {"hostPort": %[1]s}, "other": {"hostPort": %[1]s}}}`, port))
	s.await("what is free is used", func(h gateway.Health) bool { return h.Upstreams["other"].Tools > 0 })
	text := s.findings()
	for name, owner := range map[string]string{"Desk-Excel": `the Computer "desk"`, "desk": `the Computer "desk"`, "Stock": `the agent "stock"`, "Own": "mcpServers.own"} {
		if !strings.Contains(text, "routes."+name+" of routing.json is left out") || !strings.Contains(text, "belongs to "+owner) {
			t.Errorf("%s: findings %s", name, text)
		}
		if n := strings.Count(s.stderr.String(), "routes."+name+" of routing.json is left out"); n != 1 {
			t.Errorf("%s is told %d times", name, n)
		}
		if status, _ := ask(t, s.base+"/mcps/"+name+"/mcp", "", "tools/list", "{}"); status != http.StatusNotFound && name != "desk" {
			t.Errorf("/mcps/%s/mcp: %d", name, status)
		}
	}
	h := s.health()
	for _, name := range []string{"desk-excel", "stock", "own"} {
		if h.Upstreams[name].Tools == 0 {
			t.Errorf("%s is gone: %+v", name, h.Upstreams)
		}
	}
}

// TestNamesLikeABoundOne: a Computer without the key has nothing of what is bound to
// it, under no spelling of the name, whoever comes first.
func TestNamesLikeABoundOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	s := serve(t, "mcpServers: {}\n"+d.hub())
	join := func(name string) error {
		t.Helper()
		m, err := member.New(member.Options{URL: s.base, Role: smcp.RoleComputer, Name: name, Office: "weir",
			Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		return m.Start(t.Context())
	}
	refused := func() {
		t.Helper()
		for _, name := range []string{"Desk", "DESK", " desk", "desk ", "ｄesk", "desk-excel", "Desk-Excel", "desk.excel", "DESK.excel", "desk-word"} {
			if err := join(name); err == nil || !strings.Contains(err.Error(), "desk") || !strings.Contains(err.Error(), "another name") {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	refused()
	d.start(t, s)
	refused()
	if err := join("desktop"); err != nil {
		t.Errorf("a name that is free: %v", err)
	}
}

// TestComputerStaysItsOwners: with tokens, the name of a Computer without a key belongs
// to the token it came with, also when it has left.
func TestComputerStaysItsOwners(t *testing.T) {
	t.Parallel()
	hash := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	s := serve(t, "mcpServers: {}\nhub:\n  tokens:\n    - {name: ann, sha256: "+hash("t-ann")+"}\n    - {name: bob, sha256: "+hash("t-bob")+"}\n")
	join := func(token, name, office string) (*member.Member, error) {
		t.Helper()
		m, err := member.New(member.Options{URL: s.base, Role: smcp.RoleComputer, Name: name, Office: office, Token: token,
			Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		return m, m.Start(t.Context())
	}
	m, err := join("t-ann", "desk", "weir")
	if err != nil {
		t.Fatal(err)
	}
	_ = m.Close()
	s.await("it has left", func(h gateway.Health) bool { return len(h.Hub.Members) == 1 })
	for _, name := range []string{"desk", "Desk"} {
		if _, err := join("t-bob", name, "weir"); err == nil || !strings.Contains(err.Error(), `belongs to the Computer "desk"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := join("t-bob", "desk", "elsewhere"); err != nil {
		t.Errorf("in an office that the gateway is not in: %v", err)
	}
	if _, err := join("t-ann", "desk", "weir"); err != nil {
		t.Errorf("its owner is back: %v", err)
	}
}
