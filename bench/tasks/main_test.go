package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestReplays(t *testing.T) {
	weir := filepath.Join(t.TempDir(), "weir")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", weir, "github.com/weir-mcp/weir/cmd/weir")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("tasks", func(t *testing.T) { testTasks(t, weir) })
	t.Run("faults", func(t *testing.T) { testFaults(t, weir) })
}

// The tasks of weir's own servers, played by real processes. With nine tools a search shows few cards,
// so single calls are cheaper here than in the table of docs/context-cost.md.
func testTasks(t *testing.T, weir string) {
	costs, err := measure(t.Context(), weir, weir, "", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := costs.print(&out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if len(costs.rows) != 3 || costs.tools != 9 {
		t.Fatalf("%d tasks over %d tools", len(costs.rows), costs.tools)
	}
	s, p := costs.total(single), costs.total(programs)
	if 2*p.alone.turns > s.alone.turns || 100*p.alone.tokens > 38*s.alone.tokens {
		t.Errorf("programs take %d of %d turns and %d of %d tokens", p.alone.turns, s.alone.turns, p.alone.tokens, s.alone.tokens)
	}
	if p.joined.turns >= s.joined.turns || p.joined.tokens >= s.joined.tokens {
		t.Errorf("programs are not cheaper than calls that share turns: %+v, %+v", p.joined, s.joined)
	}
	if b := costs.total(before); b.alone.turns != s.alone.turns || b.joined.turns != s.joined.turns {
		t.Errorf("the same program takes other turns: %+v, %+v", b, s)
	}
	for _, r := range costs.rows {
		for w, c := range r.costs {
			if c.alone.turns < 2 || c.joined.turns > c.alone.turns || c.joined.tokens > c.alone.tokens || c.alone.tokens < 1000 {
				t.Errorf("%s, %s: %+v", r.task.name, ways[w].name, c)
			}
		}
	}
	for _, want := range []string{"| A table to a sink |", "| together |", "Of single calls, programs take 0."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// A replay that does not go as it is written down ends with an error, and so does one that knows more
// than its answers showed.
func testFaults(t *testing.T, weir string) {
	s, err := newStage(t.Context(), weir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := s.gateway(t.Context(), weir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, tt := range []struct{ calls, want string }{
		{"execute notes:list_notes {}", "no answer has shown notes:list_notes"},
		{"run\n\treturn tools.notes.list_notes({})", "no answer has shown notes:list_notes"},
		{"browse list notes\nexecute notes:read_note {\"id\":\"n99\"}", "failed is true, not false"},
		{"browse list notes\n! execute notes:list_notes {}", "failed is false, not true"},
		{"browse list notes\nexecute notes:list_notes {}\n= no such note", `the answer has no "no such note"`},
		{"browse list notes\nexecute notes:list_notes {", "not JSON"},
	} {
		task, err := parseTask("t", "# t\nservers: notes\n\n-- native --\nbrowse x\n-- single --\n"+tt.calls+"\n-- program --\nbrowse x\n")
		if err != nil {
			t.Fatal(err)
		}
		talk, end, err := c.talk(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := talk.play(t.Context(), task.ways["single"]); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.calls, err, tt.want)
		}
		end()
	}
}

func TestParseTask(t *testing.T) {
	const ways = "\n-- native --\nbrowse x\n-- single --\nbrowse x\n-- program --\nbrowse x\n"
	for text, want := range map[string]string{
		"servers: a" + ways: "no title",
		"# t" + ways:        "no servers",
		"# t\nservers: a\n-- native --\nbrowse x":      `no calls of "before"`,
		"# t\nservers: a\n-- native --\n\tx" + ways:    "continues no call",
		"# t\nservers: a\n-- native --\nlook x" + ways: `no verb "look"`,
	} {
		if _, err := parseTask("t", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if err := run(t.Context(), []string{"more"}, &bytes.Buffer{}); err == nil {
		t.Error("an unknown argument was taken")
	}
}
