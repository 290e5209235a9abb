package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/observe"
)

// A board is a roster whose lines a test reads.
type board struct {
	*roster
	log     *observe.Log
	out     bytes.Buffer
	servers map[string]gateway.UpstreamHealth
}

func newBoard(t *testing.T, width int, level string) *board {
	t.Helper()
	b := &board{servers: map[string]gateway.UpstreamHealth{}}
	a := &process{stderr: terminal{Writer: &screen{w: &b.out}, width: width}}
	c, _, err := config.Parse("", []byte("log: {level: "+level+"}\nmcpServers: {files: {command: x, env: {K: sesame-open}}}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lines *screenLines
	b.log, lines = newLog(a.stderr, c, "")
	if lines == nil {
		t.Fatal("a terminal gets no lines for people")
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	b.roster = newRoster(lines, func() *gateway.Health { return &gateway.Health{Upstreams: b.servers} }, b.log.Clean, func() time.Time { return noon })
	return b
}

// seen looks at the servers and returns the lines that this prints.
func (b *board) seen() string {
	b.look()
	defer b.out.Reset()
	return b.out.String()
}

// TestRoster: a person sees how each server comes up, fails and comes back, each once.
func TestRoster(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 60, "info")
	expect := func(want string) {
		t.Helper()
		if got := b.seen(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	b.servers = map[string]gateway.UpstreamHealth{
		"files":    {State: "starting"},
		"weather":  {State: "ready"}, // greeted, not listed yet
		"off":      {State: "disabled"},
		"needskey": {State: "failed", Error: "weir.yaml:4:38: the environment variable API_KEY is not set; set it, or give a default with ${API_KEY:-default}"},
	}
	expect("✗ needskey  weir.yaml:4:38: the environment variable API_KEY\n            is not set; set it, or give a default with\n            ${API_KEY:-default}\n")
	if got := strings.Join(b.open(), " "); got != "files weather" || b.complete {
		t.Errorf("waits for %q, %v", got, b.complete)
	}
	b.servers["files"] = gateway.UpstreamHealth{State: "ready", Listed: true, Tools: 14}
	b.servers["weather"] = gateway.UpstreamHealth{State: "idle", Listed: true, Tools: 1, Resources: 2, Prompts: 1}
	expect("✓ files     14 tools\n✓ weather   1 tool, 2 resources, 1 prompt\n")
	expect("")
	b.servers["weather"] = gateway.UpstreamHealth{State: "ready", Listed: true, Tools: 1, Differs: 1, Note: "1 definition differs from weir.lock"}
	expect("12:00:00 ✓ weather   1 tool · 1 definition differs from\n                     weir.lock\n")
	b.servers["weather"] = gateway.UpstreamHealth{State: "refused", Listed: true, Tools: 1, Differs: 1, Note: "taken out"}
	expect("12:00:00 ✗ weather   taken out\n")
	b.servers["weather"] = gateway.UpstreamHealth{State: "idle", Listed: true, Tools: 1, Resources: 2, Prompts: 1}
	expect("12:00:00 ✓ weather   back, 1 tool, 2 resources, 1 prompt\n")
	if !b.complete || b.summary() != "2 of 3 servers are up" {
		t.Errorf("complete %v, %s", b.complete, b.summary())
	}

	const lost = `upstream "files" ended (exit status 1); its last words: sesame-open`
	b.servers["files"] = gateway.UpstreamHealth{State: "failed", Listed: true, Error: lost}
	expect("12:00:00 ✗ files     ended (exit status 1); its last words:\n                     [redacted]\n")
	b.servers["files"] = gateway.UpstreamHealth{State: "starting", Listed: true, Error: lost}
	expect("")
	b.servers["files"] = gateway.UpstreamHealth{State: "ready", Listed: true, Tools: 14}
	delete(b.servers, "weather")
	b.servers["evil\x1b[2J\u202e"] = gateway.UpstreamHealth{State: "left_out", Note: "it is\nweir itself"}
	expect("12:00:00 - evil[2J   it is weir itself\n12:00:00 ✓ files     back, 14 tools\n")
}

// TestRosterFits: lines of servers fit any screen, with the whole reason and both ends of the name.
func TestRosterFits(t *testing.T) {
	t.Parallel()
	const why = "FATAL: DATABASE_URL is not set, see https://example.com/a/rather/long/path/of/the/documentation/of/this/server"
	for _, width := range []int{30, 60, 80, 200} {
		b := newBoard(t, width, "info")
		b.servers = map[string]gateway.UpstreamHealth{"long-" + strings.Repeat("x", 50) + "-name": {State: "failed", Error: why}}
		got := b.seen()
		if squeezed := strings.Join(strings.Fields(got), ""); !strings.Contains(squeezed, strings.ReplaceAll(why, " ", "")) || !strings.Contains(got, "long-x") || !strings.Contains(got, "x-name") {
			t.Errorf("width %d:\n%s", width, got)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line has %d characters: %q", width, n, line)
			}
		}
	}
}

// TestScreenLog: at a terminal, the log has what went wrong and what is news, without the records
// that the lines of servers repeat; the level debug shows all.
func TestScreenLog(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{
		"info": "· the configuration has changed and is applied (added: a, b)\n" +
			"! files  a tool is left out: it is [redacted] (tool: x)\n✗ the listener failed: closed\n",
		"error": "✗ the listener failed: closed\n",
		"debug": "· files  listed (tools: 3)\n· the configuration has changed and is applied (added: a, b)\n" +
			"! files  the connection was lost: EOF\n! files  a tool is left out: it is [redacted] (tool: x)\n✗ the listener failed: closed\n· a detail (g.k: v)\n",
	} {
		b := newBoard(t, 200, level)
		files := b.log.With("upstream", "files")
		files.Info("listed", "tools", 3)
		b.log.Info(gateway.LogApplied, "added", []string{"a", "b"}, "removed", []string(nil))
		files.With("state", "failed").Warn("the connection was lost", "err", errors.New("EOF"))
		files.Warn("a tool is left out", "tool", "x", "err", errors.New("it is sesame-open"))
		b.log.Error("the listener failed", "err", "closed")
		b.log.WithGroup("g").Debug("a detail", slog.String("k", "v"))
		if got := b.out.String(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", level, got, want)
		}
		if len(b.changed) != 1 {
			t.Errorf("%s: no record makes the roster look", level)
		}
	}
}
