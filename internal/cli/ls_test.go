package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestWhyAnUpstreamHasNoTools: weir ls shows why a server has no tools.
func TestWhyAnUpstreamHasNoTools(t *testing.T) {
	t.Parallel()
	for _, u := range []gateway.UpstreamHealth{{Name: "files", Error: "it ended"}, {Name: "files", Note: "has not answered for 6s"}} {
		var out bytes.Buffer
		a := &process{stdout: terminal{Writer: &out}}
		h := &gateway.Health{Upstreams: map[string]gateway.UpstreamHealth{"files": u}}
		if err := printUpstreams(a.stdout, h); err != nil || !strings.Contains(out.String(), u.Error+u.Note) {
			t.Errorf("%+v: %v, %s", u, err, out.String())
		}
	}
}

// TestOwnFrontAsUpstream: a server that is this gateway itself is told as that,
// however it is reached.
func TestOwnFrontAsUpstream(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\n")
	config := "mcpServers:\n  stream: {type: http, url: \"" + s.url + "\"}\n  events: {type: sse, url: \"" + s.base + "/sse\"}\n"
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h := s.await("both are known as loops", func(h gateway.Health) bool {
		return strings.Contains(h.Upstreams["stream"].Note, "leads back to this weir") && strings.Contains(h.Upstreams["events"].Note, "leads back to this weir")
	})
	for name, u := range h.Upstreams {
		if u.State != "left_out" || u.Tools != 0 || u.Error != "" || !strings.Contains(u.Note, "mcpServers."+name) {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// TestReasonIsNeverCut: on a screen of any width the whole reason is there, on lines
// of its own, and a name that is too long is cut in its middle.
func TestReasonIsNeverCut(t *testing.T) {
	t.Parallel()
	const why = `upstream "needskey" ended (exit status 1); its last words: FATAL: DATABASE_URL is not set, see https://example.com/a/rather/long/path/of/the/documentation/of/this/server`
	name := strings.Repeat("long-", 10) + "name"
	h := &gateway.Health{Upstreams: map[string]gateway.UpstreamHealth{
		"fine": {State: "ready", Transport: "stdio", Tools: 3, Server: "fake", Version: "1"},
		name:   {State: "failed", Transport: "stdio", Error: why},
	}}
	for _, width := range []int{40, 60, 80, 100, 200} {
		var out bytes.Buffer
		a := &process{stdout: terminal{Writer: &out, width: width}}
		if err := printUpstreams(a.stdout, h); err != nil {
			t.Fatal(err)
		}
		joined := strings.NewReplacer("\n", "", " ", "").Replace(out.String())
		if !strings.Contains(joined, strings.ReplaceAll(why, " ", "")) || !strings.Contains(joined, "name") || !strings.Contains(joined, "long-") {
			t.Errorf("width %d:\n%s", width, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); strings.HasPrefix(line, "  ") && n > width {
				t.Errorf("width %d: a line of the reason has %d characters: %q", width, n, line)
			}
		}
	}
}

// TestLogBesideSpinner: a line that is written while a status line is shown takes its
// place, and is never in the same line.
func TestLogBesideSpinner(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &statusLine{w: &out}
	write := func(text string) {
		t.Helper()
		if _, err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n")
	l.show("⠼ starting 9 servers")
	write("level=WARN msg=one\n")
	l.show("⠴ starting 9 servers")
	write("a prompt: ")
	write("(secret) ")
	l.show("⠦ starting 9 servers") // must not break into the prompt
	write("answer\n")
	l.show("⠦ starting 9 servers")
	l.show("")
	write("after\n")
	const want = "before\n" + clearLine + "⠼ starting 9 servers" + clearLine + "level=WARN msg=one\n⠼ starting 9 servers" +
		clearLine + "⠴ starting 9 servers" + clearLine + "a prompt: (secret) " + "answer\n" + clearLine + "⠦ starting 9 servers" + clearLine + "after\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}
