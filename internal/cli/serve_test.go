package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/part"
)

// gone reports whether a process has ended.
func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	return err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// slowly is what a limit is on a machine that has much else to do.
func slowly(limit time.Duration) time.Duration { return limit + 5*time.Second }

// TestTermUnderLoad ends a gateway that many clients are calling: every call
// that was sent has an answer, the process ends in time, and so do its children.
func TestTermUnderLoad(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	sleep := s.tool("fake:sleep")
	pid := s.health().Upstreams["fake"].Pid
	const clients = 16
	var (
		wg                         sync.WaitGroup
		answered, refused, stopped atomic.Int64
		running                    = make(chan struct{}, clients)
	)
	for n := range clients {
		wg.Go(func() {
			c := httpClient(t)
			last := time.Now() // when the answer before came
			for i := 0; ; i++ {
				body := modernCall(n*1_000_000+i, "tool_execute", map[string]any{"tool_id": sleep, "args": map[string]int{"sleep_ms": 5 + 7*n}})
				code, text, err := post(t.Context(), c, s.url, "tool_execute", body)
				away := time.Since(last) > 300*time.Millisecond // too slow a machine to judge it
				last = time.Now()
				switch {
				case err == nil && code == http.StatusOK && strings.Contains(text, "slept"):
					answered.Add(1)
				case err == nil && strings.Contains(text, "shutting_down"):
					refused.Add(1)
				case errors.Is(err, syscall.ECONNREFUSED), away && errors.Is(err, io.EOF):
					stopped.Add(1) // nothing was sent, or to a connection that weir had waited for
					return
				default:
					t.Errorf("client %d: call %d was lost: status %d, %q, %v", n, i, code, text, err)
					return
				}
				if i == 3 {
					running <- struct{}{}
				}
			}
		})
	}
	for range clients {
		<-running
	}
	took, code := s.end(syscall.SIGTERM)
	wg.Wait()
	if code != 0 || took > slowly(5*time.Second) {
		t.Errorf("exit code %d after %v, want 0 within 5 s", code, took)
	}
	if stopped.Load() != clients || answered.Load() < clients {
		t.Errorf("%d of %d clients saw the end, %d calls were answered, %d refused", stopped.Load(), clients, answered.Load(), refused.Load())
	}
	if !gone(pid) {
		t.Errorf("the upstream, process %d, outlived weir", pid)
	}
}

// TestTermPastDeadline: a call that does not finish in time is answered with an
// error, over HTTP and over stdio, and even a child that ignores everything is
// gone afterwards.
func TestTermPastDeadline(t *testing.T) {
	t.Parallel()
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		s := serve(t, "mcpServers:\n  fake: {command: %FAKE%, args: [-immune]}\n")
		sleep := s.tool("fake:sleep")
		pid := s.health().Upstreams["fake"].Pid
		answer := make(chan string, 1)
		go func() {
			body := modernCall(7, "tool_execute", map[string]any{"tool_id": sleep, "args": map[string]int{"sleep_ms": 60_000}})
			code, text, err := post(t.Context(), httpClient(t), s.url, "tool_execute", body)
			answer <- fmt.Sprint(code, text, err)
		}()
		s.await("the call runs", func(h gateway.Health) bool { return h.Upstreams["fake"].InFlight == 1 })
		took, code := s.end(syscall.SIGTERM)
		if code != 0 || took < 4*time.Second || took > slowly(5*time.Second) {
			t.Errorf("exit code %d after %v, want 0 after 4.5 to 5 s", code, took)
		}
		if text := <-answer; !strings.Contains(text, "shutting_down") || !strings.Contains(text, `"id":7`) {
			t.Errorf("the call was answered with %s", text)
		}
		if !gone(pid) {
			t.Errorf("the upstream, process %d, outlived weir", pid)
		}
	})
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		events := filepath.Join(t.TempDir(), "events")
		session, cmd := stdioSession(t, "mcpServers: {fake: {command: '%FAKE%', args: [-log, '"+events+"']}}\n")
		sleep := idOf(t, session, "fake:sleep")
		failed := make(chan error, 1)
		go func() {
			_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "tool_execute", Arguments: map[string]any{"tool_id": sleep, "args": map[string]any{"sleep_ms": 60_000}}})
			failed <- err
		}()
		sleeps(t, events)
		began := time.Now()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := <-failed
		if err == nil || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("the call ended with %v", err)
		}
		_ = session.Close()
		if took := time.Since(began); took > slowly(5*time.Second) || cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("%s after %v, want exit code 0 within 5 s", cmd.ProcessState, took)
		}
	})
}

// TestSecondSignal: whoever does not want to wait does not have to.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers:\n  fake: {command: %FAKE%, args: [-immune]}\n")
	sleep := s.tool("fake:sleep")
	pid := s.health().Upstreams["fake"].Pid
	go func() {
		body := modernCall(7, "tool_execute", map[string]any{"tool_id": sleep, "args": map[string]int{"sleep_ms": 60_000}})
		_, _, _ = post(t.Context(), httpClient(t), s.url, "tool_execute", body) // answered or cut off, either will do
	}()
	s.await("the call runs", func(h gateway.Health) bool { return h.Upstreams["fake"].InFlight == 1 })
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(s.stderr.String(), "shutting down") && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if took, _ := s.end(syscall.SIGINT); took > slowly(2*time.Second) {
		t.Errorf("the second signal ended weir after %v", took)
	}
	if !gone(pid) {
		t.Errorf("the upstream, process %d, outlived weir", pid)
	}
}

// stdioSession starts weir the way a client starts a server.
func stdioSession(t *testing.T, config string, args ...string) (*sdk.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(weirBin, append([]string{"serve", "--stdio", "--config", writeConfig(t, "weir.yaml", config)}, args...)...)
	cmd.Env = environment()
	log := &lockedBuffer{}
	cmd.Stderr = log
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: 8 * time.Second}, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, log)
	}
	t.Cleanup(func() {
		_ = session.Close()
		if t.Failed() {
			t.Logf("log of weir:\n%s", log)
		}
	})
	return session, cmd
}

// text calls a tool and returns its text.
func textOf(t *testing.T, session *sdk.ClientSession, tool string, args map[string]any) string {
	t.Helper()
	r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var out strings.Builder
	for _, c := range r.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			out.WriteString(c.Text)
		}
	}
	return out.String()
}

// idOf browses for a tool's id.
func idOf(t *testing.T, session *sdk.ClientSession, name string) string {
	t.Helper()
	namespace, _, _ := strings.Cut(name, ":")
	level := textOf(t, session, "tool_browse", map[string]any{"path": "/" + namespace})
	for line := range strings.Lines(level) {
		if id, _, _ := strings.Cut(line, " "); strings.HasPrefix(id, name+"#") {
			return id
		}
	}
	t.Fatalf("no %s in %s", name, level)
	return ""
}

// TestClients connects the Go SDK's client in every way there is.
func TestClients(t *testing.T) {
	t.Parallel()
	s := serve(t, "mode: gateway\n"+oneFake)
	flow := func(t *testing.T, session *sdk.ClientSession) {
		// The first call after the handshake: the catalog is not empty.
		echo := idOf(t, session, "fake:echo")
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 4 {
			t.Fatalf("%d tools, want 4 (%v)", len(tools.Tools), err)
		}
		if got := textOf(t, session, "tool_execute", map[string]any{"tool_id": echo, "args": map[string]any{"text": "hello"}}); got != "hello" {
			t.Errorf("tool_execute: %q", got)
		}
		handle := handlePattern.FindString(textOf(t, session, "tool_execute", map[string]any{"tool_id": echo, "args": map[string]any{"size": 5000}}))
		if got := textOf(t, session, "tool_view", map[string]any{"handle": handle, "selector": map[string]any{"type": "head", "chars": 5}}); !strings.HasPrefix(got, "xxxxx") {
			t.Errorf("tool_view: %q", got)
		}
	}
	dial := func(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
		t.Helper()
		session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return session
	}
	t.Run("stdio", func(t *testing.T) {
		session, _ := stdioSession(t, "mode: gateway\n"+oneFake)
		flow(t, session)
	})
	t.Run("streamable HTTP", func(t *testing.T) {
		flow(t, dial(t, &sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: httpClient(t)}))
	})
	t.Run("HTTP+SSE", func(t *testing.T) {
		flow(t, dial(t, &sdk.SSEClientTransport{Endpoint: s.base + "/sse", HTTPClient: httpClient(t)}))
	})
	for _, path := range []string{"/mcps/fake/mcp", "/mcp/fake/mcp"} {
		t.Run("passthrough "+path, func(t *testing.T) {
			session := dial(t, &sdk.StreamableClientTransport{Endpoint: s.base + path, HTTPClient: httpClient(t)})
			if got := textOf(t, session, "echo", map[string]any{"text": "as it is"}); got != "as it is" {
				t.Errorf("echo: %q", got)
			}
			if name := session.InitializeResult().ServerInfo.Name; name != "fakemcp" {
				t.Errorf("the server calls itself %q", name)
			}
		})
	}
	t.Run("proxy mode", func(t *testing.T) {
		session, _ := stdioSession(t, oneFake, "--mode", "proxy")
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 10 {
			t.Fatalf("%d tools in proxy mode (%v)", len(tools.Tools), err)
		}
	})
}

// TestReload changes the configuration of a running gateway.
func TestReload(t *testing.T) {
	t.Parallel()
	const head = "mcpServers:\n  stays: {command: %FAKE%}\n"
	s := serve(t, head+"  changes: {command: %FAKE%}\n  goes: {command: %FAKE%}\n")
	ready := func(names ...string) func(gateway.Health) bool {
		return func(h gateway.Health) bool {
			for _, name := range names {
				if u := h.Upstreams[name]; u.State != "ready" || u.Tools == 0 {
					return false
				}
			}
			return len(h.Upstreams) == len(names)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.config, []byte(strings.ReplaceAll(text, "%FAKE%", fakeBin)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := s.await("all are ready", ready("stays", "changes", "goes"))
	write(head + "  changes: {command: %FAKE%, args: [-tools, \"5\"]}\n  comes: {command: %FAKE%}\n")
	after := s.await("the change is applied", func(h gateway.Health) bool {
		return ready("stays", "changes", "comes")(h) && h.Upstreams["changes"].Tools == before.Upstreams["changes"].Tools+5
	})
	if before.Upstreams["stays"].Pid != after.Upstreams["stays"].Pid || after.Upstreams["stays"].Restarts != 0 {
		t.Errorf("a server that did not change was started again: %+v", after.Upstreams["stays"])
	}
	if before.Upstreams["changes"].Pid == after.Upstreams["changes"].Pid {
		t.Error("a server that changed was not started again")
	}
	s.tool("comes:echo")

	// A configuration that cannot be used changes nothing, and every problem is said.
	write(head + "  changes: {comand: x}\nlistn: y\n")
	logged(t, s, "comand", "listn", "the old one stays")
	if h := s.health(); !ready("stays", "changes", "comes")(h) {
		t.Errorf("a bad configuration was applied: %+v", h)
	}

	// The mode and who may call are applied; the address waits for a restart.
	token := sha256.Sum256([]byte("sesame"))
	write("mode: proxy\nlisten: 127.0.0.1:1\nauth: {tokens: [{name: me, sha256: " + hex.EncodeToString(token[:]) + "}]}\n" + head)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, body := get(t, s.base+"/healthz"); body == alive {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the tokens were not applied")
		}
	}
	code, body := get(t, s.base+"/healthz", "Authorization", "Bearer sesame")
	if h := decode[gateway.Health](t, body); code != http.StatusOK || h.Mode != "proxy" {
		t.Errorf("health with a token: %d %s", code, body)
	}
	weir(t, "WEIR_TOKEN=sesame", "search", "echo", "--url", s.url).want(t, exitOK, "stays:echo")
}

// logged waits until the log of a gateway holds some texts.
func logged(t *testing.T, s *server, texts ...string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		log, missing := s.stderr.String(), ""
		for _, text := range texts {
			if !strings.Contains(log, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the log does not hold %q:\n%s", missing, log)
		}
	}
}

// alive is what /healthz says to whoever shows no token where one is wanted.
const alive = `{"status":"ok"}` + "\n"

// TestAccess: tokens, hosts, origins, and what strangers may see.
func TestAccess(t *testing.T) {
	t.Parallel()
	token := sha256.Sum256([]byte("sesame"))
	s := serve(t, oneFake+"auth: {tokens: [{name: me, sha256: "+hex.EncodeToString(token[:])+"}]}\n")
	for _, path := range []string{"/mcp", "/sse", "/mcps/fake/mcp", "/mcp/fake/mcp", "/catalog", "/stats", "/metrics", "/status/data"} {
		if code, body := get(t, s.base+path); code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/healthz", "/health"} {
		if code, body := get(t, s.base+path); code != http.StatusOK || body != alive {
			t.Errorf("%s without a token: %d %s", path, code, body)
		}
		if code, body := get(t, s.base+path, "Authorization", "Bearer wrong"); code != http.StatusUnauthorized {
			t.Errorf("%s with a wrong token: %d %s", path, code, body)
		}
		if code, body := get(t, s.base+path, "Authorization", "Bearer sesame"); code != http.StatusOK || !strings.Contains(body, `"upstreams"`) {
			t.Errorf("%s with a token: %d %s", path, code, body)
		}
		if code, _ := get(t, s.base+path, "Host", "evil.example"); code != http.StatusForbidden {
			t.Errorf("%s by a foreign host: %d", path, code)
		}
	}
	weir(t, "ls", "--url", s.url).want(t, exitRefused, "WEIR_TOKEN")
	weir(t, "WEIR_TOKEN=wrong", "ls", "--url", s.url).want(t, exitRefused, "does not know this token")
	weir(t, "WEIR_TOKEN=sesame", "ls", "--url", s.url).want(t, exitOK, "fake")
	weir(t, "ls", "--url", s.url, "--token", "sesame").want(t, exitOK, "fake")

	code, page := get(t, s.base+"/", "Accept", "text/html")
	if code != http.StatusOK || !strings.Contains(page, s.url) || strings.Contains(page, "/mcps/fake") || strings.Contains(page, s.config) {
		t.Errorf("the page tells strangers too much, or nothing: %d %s", code, page)
	}
	for _, header := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}} {
		for _, path := range []string{"/", "/healthz", "/mcp"} {
			if code, _ := get(t, s.base+path, append(header, "Authorization", "Bearer sesame")...); code != http.StatusForbidden {
				t.Errorf("%s with %s: %d, want 403", path, header, code)
			}
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	s := serve(t, "mode: gateway\n"+oneFake)
	s.await("ready", func(h gateway.Health) bool { return h.Upstreams["fake"].State == "ready" })
	code, page := get(t, s.base+"/", "Accept", "text/html,*/*")
	for _, text := range []string{s.url, "claude mcp add", ".vscode/mcp.json", "mcpServers", "&#34;attach&#34;", ">fake<", "/mcps/NAME/mcp", "ready", s.config, "<main>"} {
		if code != http.StatusOK || !strings.Contains(page, text) {
			t.Errorf("no %q on the page (%d)", text, code)
		}
	}
	if strings.Contains(page, "mcp-remote") {
		t.Error("a client of this machine needs a bridge from npm")
	}
	if strings.Contains(page, "https://") {
		t.Error("the page needs another server")
	}
	proxy := serve(t, oneFake, "--mode", "proxy")
	proxy.await("ready", func(h gateway.Health) bool { return h.Upstreams["fake"].State == "ready" })
	_, other := get(t, proxy.base+"/", "Accept", "text/html,*/*")
	const three = "A client sees three instead"
	if !strings.Contains(page, three) || strings.Contains(other, three) || !strings.Contains(other, "tool_hydrate") {
		t.Error("the page does not say what a client sees in its mode")
	}
	if code, body := get(t, s.base+"/"); code != http.StatusOK || decode[map[string]string](t, body)["mcp"] != s.url {
		t.Errorf("/ for a program: %d %s", code, body)
	}
	if code, body := get(t, s.base+"/nowhere"); code != http.StatusNotFound || decode[map[string]string](t, body)["mcp"] != s.url {
		t.Errorf("/nowhere: %d %s", code, body)
	}
	if code, body := get(t, s.base+"/mcps/nobody/mcp"); code != http.StatusNotFound || !strings.Contains(body, "fake") {
		t.Errorf("an unknown upstream: %d %s", code, body)
	}
	h := s.health()
	if h.Status != gateway.StatusOK || h.Name != part.ServerName || h.Version == "" || h.Uptime <= 0 || h.Config != s.config {
		t.Errorf("health: %+v", h)
	}
}

// TestFoundConfig: without --config, serve takes what this folder has, another
// client's file as well.
func TestFoundConfig(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"weir.yml", ".mcp.json"} {
		t.Run(name, func(t *testing.T) {
			path := writeConfig(t, name, `{"mcpServers": {"fake": {"command": "%FAKE%"}}}`)
			weir(t, "trust", "--yes", path).want(t, exitOK)
			s := start(t, path, "serve", "--listen", "127.0.0.1:0")
			if h := s.health(); h.Config != path {
				t.Errorf("serve took %s, want %s", h.Config, path)
			}
			s.tool("fake:echo")
		})
	}
}

// TestListenTaken: an address in use is said before anything is started.
func TestListenTaken(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\n")
	path := writeConfig(t, "weir.yaml", oneFake)
	weir(t, "serve", "--config", path, "--listen", strings.TrimPrefix(s.base, "http://")).want(t, exitUsage, "in use", "--listen")
}

// TestDisconnect: a client that goes away in mid-call ends the call upstream.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	sleep := s.tool("fake:sleep")
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		body := modernCall(7, "tool_execute", map[string]any{"tool_id": sleep, "args": map[string]int{"sleep_ms": 60_000}})
		_, _, _ = post(ctx, httpClient(t), s.url, "tool_execute", body) // it is given up
	}()
	s.await("the call runs", func(h gateway.Health) bool { return h.Upstreams["fake"].InFlight == 1 })
	cancel()
	<-over
	s.await("the call has ended", func(h gateway.Health) bool { return h.Upstreams["fake"].InFlight == 0 })
}
