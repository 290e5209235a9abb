package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// recordOf returns the only running gateway of a state folder.
func recordOf(t *testing.T, state string) runFile {
	t.Helper()
	files := runFiles(t, state)
	if len(files) != 1 {
		t.Fatalf("gateways %q", files)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return decode[runFile](t, string(data))
}

// sendSignal sends a signal to a process.
func sendSignal(pid int, s os.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(s)
}

// endGateway ends the gateway in the background of a state folder after the test.
func endGateway(t *testing.T, state string) {
	t.Cleanup(func() {
		for _, path := range runFiles(t, state) {
			data, err := os.ReadFile(path)
			var f runFile
			if err != nil || json.Unmarshal(data, &f) != nil {
				continue
			}
			_ = sendSignal(f.PID, syscall.SIGTERM)
			for range 200 {
				if _, err := os.Stat(path); err != nil {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
}

// attachSDK connects the official SDK over weir attach.
func attachSDK(t *testing.T, state, path string, more ...string) *sdk.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd := exec.Command(weirBin, append([]string{"attach", "--client", "sdk", "--config", path, "--mode", "plain", "--idle-exit", "1m"}, more...)...)
	cmd.Env = environment("XDG_STATE_HOME=" + state)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "sdk", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// echoOver calls the echo tool until the server behind the gateway is listed.
func echoOver(t *testing.T, session *sdk.ClientSession) {
	t.Helper()
	var last any
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "fake__echo", Arguments: map[string]any{"text": "carried"}})
		if err == nil && !r.IsError {
			return
		}
		last = fmt.Sprint(r, err)
	}
	t.Fatalf("no echo: %v", last)
}

// TestAttachStartsOneGateway: eight clients at once share one gateway, without a token in any of
// their entries; they and the gateway end with their input and their last client.
func TestAttachStartsOneGateway(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	endGateway(t, state)
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\n"+tokens("ann:")+"mcpServers: {fake: {command: '%FAKE%'}}\n")
	var all sync.WaitGroup
	sessions := make([]*sdk.ClientSession, 8)
	for i := range sessions {
		all.Go(func() { sessions[i] = attachSDK(t, state, path) })
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, s := range sessions {
		echoOver(t, s)
	}
	f := recordOf(t, state)
	logs, err := filepath.Glob(filepath.Join(state, "weir", "logs", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if n := strings.Count(string(text), "weir is running"); n != 1 || err != nil {
		t.Errorf("%d gateways were started, %v:\n%s", n, err, text)
	}
	if f.Token == "" || f.Port == 0 || f.Version == "" {
		t.Errorf("the record is %+v", f)
	}
	for header, want := range map[string]int{"": 401, "Bearer wrong": 401} {
		if status, _ := exchange(t, "POST", f.URL, "{}", "Authorization", header); status != want {
			t.Errorf("%q: %d", header, status)
		}
	}
}

// TestAttachSurvivesItsGateway: calls in flight fail when the gateway is killed, and the next one
// works over a gateway that was started again.
func TestAttachSurvivesItsGateway(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	endGateway(t, state)
	events := filepath.Join(t.TempDir(), "events")
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {fake: {command: '%FAKE%', args: [-log, '"+events+"']}}\n")
	session := attachSDK(t, state, path)
	echoOver(t, session)
	f := recordOf(t, state)
	failed := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "fake__sleep", Arguments: map[string]any{"sleep_ms": 60_000}})
		failed <- err
	}()
	sleeps(t, events)
	if err := sendSignal(f.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if err == nil || !strings.Contains(err.Error(), "the gateway ended before it answered") {
			t.Errorf("the call in flight: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call in flight did not end")
	}
	echoOver(t, session)
	if again := recordOf(t, state); again.PID == f.PID {
		t.Error("the gateway is the same one")
	}
}

// TestAttachModern: modern messages pass unchanged, without a handshake, and the gateway ends after
// its last client.
func TestAttachModern(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	endGateway(t, state)
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {fake: {command: '%FAKE%'}}\n")
	p := startProcess(t, filepath.Dir(path), "XDG_STATE_HOME="+state, "attach", "--config", path, "--mode", "gateway", "--idle-exit", "200ms")
	p.say(t, string(modernCall(12345, "tool_browse", map[string]any{"query": "echo"})), `"id":12345`)
	recordOf(t, state)
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		t.Fatal("attach did not end with its input")
	}
	for end := time.Now().Add(20 * time.Second); len(runFiles(t, state)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the gateway runs without clients")
		}
	}
}

// TestAttachEndsOnSignal: SIGTERM ends attach with a call in flight, and not the gateway, which serves the
// next client in the mode that it asks for.
func TestAttachEndsOnSignal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals")
	}
	state := t.TempDir()
	endGateway(t, state)
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {fake: {command: '%FAKE%'}}\n")
	p := startProcess(t, filepath.Dir(path), "XDG_STATE_HOME="+state, "attach", "--config", path, "--mode", "gateway", "--idle-exit", "1m")
	p.say(t, string(modernCall(1, "tool_browse", map[string]any{"query": "echo"})), `"id":1`)
	before := recordOf(t, state)
	fmt.Fprintln(p.in, string(modernCall(2, "tool_execute", map[string]any{"tool_id": "fake:sleep", "params": map[string]any{"sleep_ms": 60_000}})))
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		t.Fatal("attach goes on after SIGTERM")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("attach ended with %d: %s", code, p.out.String())
	}
	session := attachSDK(t, state, path)
	echoOver(t, session)
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || slices.ContainsFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == "tool_browse" }) {
		t.Errorf("mode plain lists %v, %v", list, err)
	}
	if after := recordOf(t, state); after.PID != before.PID {
		t.Error("the gateway ended with its client")
	}
	weir(t, "attach", "--mode", "sideways").want(t, exitUsage, "auto, plain, gateway or proxy")
}

// TestAttachRefusesClone: attach starts nothing of a cloned file, and says so on standard error.
func TestAttachRefusesClone(t *testing.T) {
	t.Parallel()
	dir, _, ran := clone(t, ".mcp.json")
	f := weir(t, "XDG_STATE_HOME="+t.TempDir(), "@"+dir, "attach").want(t, exitUsage, "weir trust")
	if ran() || f.stdout != "" {
		t.Errorf("something was started: %q", f.stdout)
	}
}
