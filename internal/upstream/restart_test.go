package upstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/mcp"
)

// TestRestart: a restarted server is listed again, calls in flight end at the old run within the
// drain time, and new calls go to the new run.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f, s := readySleepy(t)
		short, long := callFor(t, m, 8*time.Second), callFor(t, m, time.Minute)
		f.set(nil, "sleep", "more")
		u, err := m.Restart("a")
		if err != nil {
			t.Fatal(err)
		}
		<-u.Settled()
		if tools := s.tools("a"); len(tools) != 2 {
			t.Errorf("listed after the restart: %q", tools)
		}
		if got := <-callFor(t, m, time.Second); got.err != nil || !strings.Contains(got.result, `"run":2`) {
			t.Errorf("a new call: %+v", got)
		}
		if got := <-short; got.err != nil || !strings.Contains(got.result, `"run":1`) {
			t.Errorf("a call in flight: %+v", got)
		}
		if got := <-long; got.err == nil || got.took != 10*time.Second {
			t.Errorf("one that takes too long: %+v", got)
		}
	})
}

// TestRestartRefuses: servers that cannot run are named with the reason.
func TestRestartRefuses(t *testing.T) {
	m := New(Options{})
	m.Apply([]*mcpserver.Server{{Name: "off", Disabled: true}})
	for name, want := range map[string]string{"off": "mcpServers.off.disabled", "none": "there is no upstream"} {
		if _, err := m.Restart(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := m.Restart("off")
	if kind, _ := mcp.KindOf(err); kind != mcp.KindShuttingDown {
		t.Errorf("after Close: %v", err)
	}
}

// TestServerLog: what a program writes to standard error is kept over its restarts, with marks
// where a run starts and ends, and forgotten with the server.
func TestServerLog(t *testing.T) {
	book := serverlog.New(serverlog.Options{})
	sh := func(name, script string) *mcpserver.Server {
		return &mcpserver.Server{Name: name, Namespace: name, Command: "sh", Args: []string{"-c", script}, Type: mcpserver.TransportStdio, Start: mcpserver.StartBoot, Timeout: time.Second}
	}
	fake := program("good")
	m, _ := manage(t, Options{Log: book}, fake, sh("crash", "echo about to fail >&2; printf 'no newline' >&2; exit 3"), &mcpserver.Server{
		Name: "none", Namespace: "none", Command: "/nonexistent/server", Type: mcpserver.TransportStdio, Start: mcpserver.StartBoot,
	})
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	shown := func(server string) string {
		var b strings.Builder
		for _, l := range book.Lines(server, 0, 1000) {
			fmt.Fprintf(&b, "%t %s\n", l.Mark, l.Text)
		}
		return b.String()
	}
	await := func(server, want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for seen := book.Last(); !strings.Contains(shown(server), want); seen = book.Last() {
			if err := book.Wait(ctx, seen); err != nil && !strings.Contains(shown(server), want) {
				t.Fatalf("%s lacks %q:\n%s", server, want, shown(server))
			}
		}
	}
	await("crash", "true starts\nfalse about to fail\nfalse no newline\ntrue ended: exit status 3\n")
	await("none", "true ended: upstream \"none\": cannot start")
	await("good", "true starts\n")
	u, err := m.Restart("good")
	if err != nil {
		t.Fatal(err)
	}
	<-u.Settled()
	await("good", "true ended: weir stopped it (exit status 0)\n")
	if got := strings.Count(shown("good"), "true starts\n"); got != 2 {
		t.Errorf("started %d times:\n%s", got, shown("good"))
	}
	m.Apply([]*mcpserver.Server{fake})
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown("crash") + shown("none"); got != "" {
		t.Errorf("removed servers left\n%s", got)
	}
}
