package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// computerProcess is weir computer, or another command, with a pipe to its standard input.
type computerProcess struct {
	cmd    *exec.Cmd
	in     *os.File
	out    lockedBuffer
	exited chan struct{}
}

func startComputer(t *testing.T, dir, env string, args ...string) *computerProcess {
	t.Helper()
	return startProcess(t, dir, env, append([]string{"computer"}, args...)...)
}

func startProcess(t *testing.T, dir, env string, args ...string) *computerProcess {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p := &computerProcess{cmd: exec.CommandContext(ctx, weirBin, args...), in: w, exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = dir, environment(strings.Fields(env)...), r, &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.exited
		cancel()
		_ = w.Close()
	})
	return p
}

// say types a line and waits for a text in what comes back.
func (p *computerProcess) say(t *testing.T, line, want string) {
	t.Helper()
	before := len(p.out.String())
	fmt.Fprintln(p.in, line)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(p.out.String()[before:], want) {
			return
		}
	}
	t.Errorf("%s: no %q in %s", line, want, p.out.String()[before:])
}

// TestComputers is docs/computers.md: a Computer dials out, its servers are
// upstreams, and an MCP client calls them.
func TestComputers(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\nhub:\n  tokens: [{name: desk, sha256: "+fmt.Sprintf("%x", sha256.Sum256([]byte("t0ken-of-the-desk")))+", role: computer, offices: [weir]}]\n")
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	write := func(names ...string) {
		t.Helper()
		var servers []string
		for _, name := range names {
			servers = append(servers, fmt.Sprintf(`%q:{"command":%q,"args":["-name",%q],"env":{"KEY":"${input:key}"},"default_tool_meta":{"auto_apply":true}}`, name, fakeBin, name))
		}
		text := `{"mcpServers":{` + strings.Join(servers, ",") + `},"inputs":[{"id":"key","type":"promptString","description":"k","password":true},
			{"id":"speed","type":"pickString","description":"s","options":["slow","fast"]}]}`
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("excel")
	base := strings.TrimSuffix(s.url, "/mcp")
	p := startComputer(t, dir, "WEIR_HUB_TOKEN=t0ken-of-the-desk A2C_SMCP_speed=slow", "--hub", base, "--name", "desk", "--config", config, "--interactive", "--input", "key=s3cret-value", "--input", "speed=fast", "--key", filepath.Join(dir, "desk.pem"))
	s.await("the Computer's server is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-excel"].Tools > 0 })
	echo := s.tool("desk-excel:echo")
	weir(t, "call", "--url", s.url, echo, "--json", `{"text":"from afar"}`).want(t, exitOK, "from afar")
	weir(t, "search", "--url", s.url, "returns its text").want(t, exitOK, "[desk]")
	for path, tool := range map[string]string{"/mcps/desk.excel/mcp": "echo", "/mcps/desk/mcp": "echo", "/mcps/desk-excel/mcp": "echo"} {
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"passed through"}}}`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", "2025-06-18")
		res, err := httpClient(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		_, _ = got.ReadFrom(res.Body)
		_ = res.Body.Close()
		if !strings.Contains(got.String(), "passed through") || !strings.Contains(got.String(), "weir/signature") {
			t.Errorf("%s: %d %s", path, res.StatusCode, got.String())
		}
	}
	// The shell.
	p.say(t, "status", "1 of 1 can be called")
	p.say(t, "servers", "excel")
	p.say(t, "tools", "echo")
	p.say(t, `call echo {"text":"by hand"}`, "by hand")
	p.say(t, "history", "echo")
	p.say(t, "inputs", "promptString")
	p.say(t, "inputs speed fast", "A2C_SMCP_speed answers speed, and wins")
	p.say(t, "inputs speed faster", "none of its options")
	if !strings.Contains(p.out.String(), "--input speed has no effect: the variable A2C_SMCP_speed answers it") {
		t.Errorf("nothing is said of a value without effect: %s", p.out.String())
	}
	p.say(t, "nonsense", "there is no command")
	p.say(t, "call", "needs TOOL")
	// Hot plug: a changed file, and the shell.
	write("excel", "word")
	s.await("a server that was added is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-word"].Tools > 0 })
	p.say(t, "disable word", "")
	s.await("a server that was switched off is none", func(h gateway.Health) bool { _, there := h.Upstreams["desk-word"]; return !there })
	if strings.Contains(p.out.String(), "s3cret-value") {
		t.Error("a secret was shown")
	}
	if n := strings.Count(s.stderr.String(), "msg=joined office=weir"); n != 2 {
		t.Errorf("joining is logged %d times, want once for the gateway and once for the Computer: %s", n, s.stderr.String())
	}
	p.say(t, "quit", "")
	s.await("all vanish with their Computer", func(h gateway.Health) bool { return len(h.Upstreams) == 0 && len(h.Hub.Members) == 1 })
}

// TestHubOfGatewayWithTokens: where the gateway asks for tokens and the hub has
// none of its own, it takes one that opens the whole gateway, and nobody without.
func TestHubOfGatewayWithTokens(t *testing.T) {
	t.Parallel()
	token := func(name, secret, more string) string {
		return fmt.Sprintf("    - {name: %s, sha256: %x%s}\n", name, sha256.Sum256([]byte(secret)), more)
	}
	s := serve(t, "mcpServers: {}\nhub: {}\nauth:\n  tokens:\n"+token("whole", "t0ken-for-all", "")+token("scoped", "t0ken-for-one", ", agents: [desk, weir]"))
	for _, test := range []struct{ name, token, want string }{
		{"no token", "", "does not let this peer in"},
		{"a token for some agents", "t0ken-for-one", "does not let this peer in"},
		{"a token that is none", "t0ken-for-none", "does not let this peer in"},
		{"a token for everything", "t0ken-for-all", ""},
	} {
		c, err := agent.Connect(t.Context(), agent.Options{URL: s.base, Office: "elsewhere", Token: test.token, Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err == nil {
			_ = c.Close() // says only that it was connected
		}
	}
	if log := s.stderr.String(); !strings.Contains(log, "hub.tokens") {
		t.Errorf("the log does not say what to do: %s", log)
	}
}

// TestReloadOfHubTokens: who may connect to a hub follows the configuration.
func TestReloadOfHubTokens(t *testing.T) {
	t.Parallel()
	text := func(name, secret string) string {
		return fmt.Sprintf("mcpServers: {}\nhub:\n  tokens:\n    - {name: %s, sha256: %x}\n", name, sha256.Sum256([]byte(secret)))
	}
	const old, young = "t0ken-that-is-old", "t0ken-that-is-new"
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		s := serve(t, text("old", old))
		reloadTokens(t, s.base, s.config, old, young, text("new", young), s.stderr.String)
	})
	t.Run("hub", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(file, []byte(text("old", old)), 0o600); err != nil {
			t.Fatal(err)
		}
		p := startProcess(t, filepath.Dir(file), "", "hub", "--config", file, "--listen", "127.0.0.1:0")
		awaitText(t, p.out.String, "Ctrl-C")
		_, base, _ := strings.Cut(p.out.String(), "--hub ")
		base, _, _ = strings.Cut(base, " ")
		reloadTokens(t, base, file, old, young, text("new", young), p.out.String)
	})
}

// reloadTokens changes the one token of a hub, and then something else.
func reloadTokens(t *testing.T, base, file, old, young, text string, log func() string) {
	lost := make(chan error, 100)
	connect := func(token string) *agent.Client {
		t.Helper()
		c, err := agent.Connect(t.Context(), agent.Options{URL: base, Office: "of-" + token, Token: token, OnLost: func(err error) { lost <- err },
			Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	connect(old)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for refused := false; !refused; {
		select {
		case err := <-lost:
			refused = strings.Contains(err.Error(), "does not let this peer in")
		case <-time.After(20 * time.Second):
			t.Fatalf("who has a token that is gone is still there: %s", log())
		}
	}
	c := connect(young)
	awaitText(t, log, "a peer was put out")
	if strings.Contains(log(), "until weir is restarted") {
		t.Errorf("a restart is asked for: %s", log())
	}
	if err := os.WriteFile(file, []byte(text+"  max_calls: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitText(t, log, "until weir is restarted")
	if _, err := c.ListRoom(t.Context()); err != nil {
		t.Errorf("who has a token was put out: %v", err)
	}
}

// awaitText waits for a text in what a process says.
func awaitText(t *testing.T, said func() string, want string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(said(), want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q in %s", want, said())
		}
	}
}

// TestHubAlone: weir hub serves Computers, and refuses those without a token.
func TestHubAlone(t *testing.T) {
	t.Parallel()
	weir(t, "hub", "--tls-cert", "x").want(t, exitUsage, "go together")
	weir(t, "computer", "--config", "none.json").want(t, exitUsage, "none.json")
	weir(t, "computer").want(t, exitUsage, "--config FILE")
	weir(t, "computer", "--show-key").want(t, exitUsage, "--key")
	dir := t.TempDir()
	key := weir(t, "@"+dir, "computer", "--key", "k.pem", "--show-key").want(t, exitOK)
	again := weir(t, "@"+dir, "computer", "--key", "k.pem", "--show-key").want(t, exitOK)
	if key.stdout != again.stdout || len(strings.TrimSpace(key.stdout)) != 44 {
		t.Errorf("keys %q and %q", key.stdout, again.stdout)
	}
	if st, err := os.Stat(filepath.Join(dir, "k.pem")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", st, err)
	}
}

// TestTermWithComputer: weir that is told to end leaves its office when the calls
// at a Computer have been answered, and does not come back to a hub that ends.
func TestTermWithComputer(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\nhub: true\n")
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers":{"far":{"command":%q,"default_tool_meta":{"auto_apply":true}}}}`, fakeBin), 0o600); err != nil {
		t.Fatal(err)
	}
	startComputer(t, dir, "", "--hub", strings.TrimSuffix(s.url, "/mcp"), "--name", "desk", "--config", config)
	s.await("the Computer's server is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-far"].Tools > 0 })
	sleep := s.tool("desk-far:sleep")
	answer := make(chan string, 1)
	go func() {
		body := modernCall(7, "tool_execute", map[string]any{"tool_id": sleep, "args": map[string]int{"sleep_ms": 1500}})
		code, text, err := post(t.Context(), httpClient(t), s.url, "tool_execute", body)
		answer <- fmt.Sprint(code, text, err)
	}()
	s.await("the call runs", func(h gateway.Health) bool { return h.Upstreams["desk-far"].InFlight == 1 })
	took, code := s.end(syscall.SIGTERM)
	if code != 0 || took > slowly(5*time.Second) {
		t.Errorf("exit code %d after %v, want 0 within 5 s", code, took)
	}
	if text := <-answer; !strings.Contains(text, "slept") {
		t.Errorf("the call was answered with %s", text)
	}
	if log := s.stderr.String(); strings.Contains(log, "refused the connection") {
		t.Errorf("it came back to its own hub: %s", log)
	}
}

// TestHubHealth: who is connected to a hub is for those whom it would let in, as a
// proxy's clients and strangers are not.
func TestHubHealth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{"excel":{"command":"`+fakeBin+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var forwarded [][]string
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Via", "X-Forwarded-Host"} {
		forwarded = append(forwarded, []string{name, "203.0.113.9"})
	}
	hubOf := func(t *testing.T, args ...string) string {
		p := startProcess(t, dir, "", append([]string{"hub", "--listen", "127.0.0.1:0"}, args...)...)
		said := until(t, "URL ", func() string { return p.out.String() })
		return regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(said)
	}
	open, closed, gateway := hubOf(t), hubOf(t, "--token", "sesame"), serve(t, "mcpServers: {}\nhub: {}\n").base
	for _, at := range []struct {
		name, base, token string
		withToken         []string
	}{{"hub", open, "", nil}, {"hub with a token", closed, "sesame", []string{"X-Api-Key", "sesame"}}, {"gateway", gateway, "", nil}} {
		office := map[bool]string{true: "weir", false: "lab"}[at.name == "gateway"]
		startComputer(t, dir, "WEIR_HUB_TOKEN="+at.token, "--hub", at.base, "--name", "desk", "--office", office, "--config", config, "--batch")
		until(t, "desk", func() string {
			_, body := get(t, at.base+"/healthz", at.withToken...)
			if !strings.Contains(body, "127.0.0.1") {
				return ""
			}
			return body
		})
		strangers := forwarded
		if at.token != "" {
			strangers = append(strangers, nil, []string{"X-Api-Key", "wrong"}, []string{"Authorization", "Bearer wrong"})
		}
		for _, header := range strangers {
			if code, body := get(t, at.base+"/healthz", header...); code != http.StatusOK || body != alive {
				t.Errorf("%s, %q: %d %s", at.name, header, code, body)
			}
		}
		if at.token != "" { // who shows it is let in from anywhere
			for _, header := range forwarded {
				if _, body := get(t, at.base+"/healthz", append(header, "Authorization", "Bearer "+at.token)...); !strings.Contains(body, "desk") {
					t.Errorf("%s, a token behind a proxy: %s", at.name, body)
				}
			}
		}
	}
}

// TestRefusedComputer: a Computer that can never join says why, and ends with
// --exit-on-refusal.
func TestRefusedComputer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, dir, "", "hub", "--listen", "127.0.0.1:0", "--token", "sesame")
	base := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(until(t, "URL ", p.out.String))
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for _, test := range []struct {
		name, hub, token, want string
	}{
		{"wrong token", base, "wrong", "does not let this peer in"},
		{"no token", base, "", "does not let this peer in"},
		{"unknown authority", secure.URL, "", "certificate"},
		{"https for http", strings.Replace(base, "http:", "https:", 1), "sesame", "cannot be reached"},
		{"no hub", plain.URL, "", "is this the URL of a hub?"},
	} {
		args := []string{"computer", "--batch", "--exit-on-refusal", "--hub", test.hub, "--name", "desk", "--office", "lab", "--config", config}
		weir(t, append([]string{"WEIR_HUB_TOKEN=" + test.token}, args...)...).want(t, exitRefused, test.want)
	}
	// Without the flag it stays, and has said why.
	stays := startComputer(t, dir, "WEIR_HUB_TOKEN=wrong", "--batch", "--hub", base, "--name", "desk", "--config", config)
	awaitText(t, stays.out.String, "the hub refuses this peer")
	select {
	case <-stays.exited:
		t.Errorf("it has ended: %s", stays.out.String())
	case <-time.After(time.Second):
	}
	weir(t, "computer", "--auto-apply=some", "--config", config).want(t, exitUsage, "all or read_only")
}

// TestSpansOfOffices: weir hub and weir computer send spans, each below that of the caller.
func TestSpansOfOffices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	collector := tracetest.New(t)
	for name, text := range map[string]string{
		"hub.yaml": "hub: {}\notlp: {url: " + collector.URL + ", service_name: the hub}\n",
		"mcp.json": `{"mcpServers":{"fake":{"command":"` + fakeBin + `"}},"otlp":{"url":"` + collector.URL + `","service_name":"the desk"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hub := startProcess(t, dir, "", "hub", "--listen", "127.0.0.1:0", "--config", filepath.Join(dir, "hub.yaml"))
	base := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(until(t, "URL ", hub.out.String))
	desk := startComputer(t, dir, "WEIR_HUB_TOKEN=", "--hub", base, "--name", "desk", "--office", "lab", "--config", filepath.Join(dir, "mcp.json"), "--batch", "--auto-apply")
	awaitText(t, desk.out.String, "Computer desk")
	a, err := agent.Connect(t.Context(), agent.Options{URL: base, Office: "lab"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	const parent = "b7ad6b7169203331"
	result, err := a.CallTool(t.Context(), agent.ToolCall{
		Computer: "desk", Tool: "echo", Arguments: []byte(`{"text":"traced"}`), Traceparent: "00-0af7651916cd43dd8448eb211c80319c-" + parent + "-01",
	})
	if err != nil || !strings.Contains(string(result), "traced") {
		t.Fatalf("%s, %v", result, err)
	}
	for _, p := range []*computerProcess{desk, hub} {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-p.exited
	}
	above := parent
	for _, want := range []string{"the hub server", "the desk server", "the desk client"} {
		found := ""
		for _, s := range collector.Spans() {
			if s.Parent == above && s.Service+" "+s.Kind == want && s.Name == "tools/call echo" && s.Trace == "0af7651916cd43dd8448eb211c80319c" {
				found = s.ID
			}
		}
		if found == "" {
			t.Fatalf("no span of %s below %s: %+v", want, above, collector.Spans())
		}
		above = found
	}
}

// TestCertificateOfDocs: what docs/computers.md tells to type makes a certificate
// that a Computer takes with --ca.
func TestCertificateOfDocs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	text, err := os.ReadFile("../../docs/computers.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^openssl (req|x509) .*$`).FindAllString(string(text), -1)
	if len(lines) != 2 {
		t.Fatalf("the document has %q", lines)
	}
	dir := t.TempDir()
	for _, line := range lines {
		line = strings.ReplaceAll(line, "DNS:gateway.example", "IP:127.0.0.1")
		command := exec.CommandContext(t.Context(), "sh", "-c", line)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, dir, "", "hub", "--listen", "127.0.0.1:0", "--tls-cert", "hub.pem", "--tls-key", "hub.key", "--token", "sesame")
	base := regexp.MustCompile(`https://127\.0\.0\.1:\d+`).FindString(until(t, "URL ", p.out.String))
	c := startComputer(t, dir, "WEIR_HUB_TOKEN=sesame", "--batch", "--hub", base, "--ca", "hub.pem", "--name", "desk", "--config", "mcp.json")
	awaitText(t, c.out.String, "msg=joined")
}
