package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/text/token"
)

func TestMain(m *testing.M) { leak.Main(m) }

// runOK runs the program and returns the rows of its table: the numbers of each
// mode, shares left out.
func runOK(t *testing.T, args ...string) map[string][]int {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	shares := regexp.MustCompile(`\([^)]*\)`)
	rows := map[string][]int{}
	for line := range strings.Lines(stdout.String()) {
		for _, m := range modes {
			rest, ok := strings.CutPrefix(strings.TrimSpace(line), m.name+" ")
			if !ok {
				continue
			}
			var row []int
			for _, field := range strings.Fields(shares.ReplaceAllString(rest, "")) {
				n, err := strconv.Atoi(field)
				if err != nil && field != "-" {
					t.Fatalf("%q in %s", field, line)
				}
				row = append(row, n)
			}
			rows[m.name] = row
		}
	}
	if len(rows) != len(modes) {
		t.Fatalf("%d rows in\n%s", len(rows), stdout.String())
	}
	return rows
}

const definitions, withBrowse, atEnd, inAll, turns = 0, 1, 2, 3, 4

func check(t *testing.T, rows map[string][]int) {
	t.Helper()
	native, proxy, gateway, stumbling := rows[modes[0].name], rows[modes[1].name], rows[modes[2].name], rows[modes[3].name]
	switch {
	case gateway[definitions] > 900:
		t.Errorf("the definitions of gateway mode cost %d", gateway[definitions])
	case gateway[withBrowse] <= gateway[definitions] || gateway[atEnd] <= gateway[withBrowse] || stumbling[atEnd] <= gateway[atEnd]:
		t.Errorf("counted too little: %v, %v", gateway, stumbling)
	case proxy[definitions] >= native[definitions] || gateway[atEnd] >= native[atEnd] || gateway[inAll] >= native[inAll]:
		t.Errorf("no cheaper than native:\n%v\n%v\n%v", native, proxy, gateway)
	case native[turns] != 3 || proxy[turns] != 5 || stumbling[turns] != gateway[turns]+2:
		t.Errorf("turns: %d %d %d %d", native[turns], proxy[turns], gateway[turns], stumbling[turns])
	}
}

// A catalogue that nobody has costs little in gateway mode, whatever its size.
func TestMadeUp(t *testing.T) {
	check(t, runOK(t))
	small, err := madeUp(100)
	if err != nil {
		t.Fatal(err)
	}
	c, err := runGateway(t.Context(), small, false)
	if err != nil || c.definitions > 900 || c.turns != 6 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSets(t *testing.T) {
	dir := t.TempDir()
	for _, set := range []string{"one", "two"} {
		var lines strings.Builder
		for i := range 60 {
			fmt.Fprintf(&lines, `{"id":"%d","server":"srv%d","name":"fetch_page_%d","description":"Fetch page number %d of the book of %s. It comes whole.","inputSchema":{"type":"object","properties":{"lang":{"type":"string","enum":["en"]},"deep":{"type":"object","properties":{"n":{"type":"integer"},"all":{"type":"boolean"},"list":{"type":"array"}},"required":["n","all","list"]}},"required":["lang","deep"]}}`+"\n", i, i%3, i, i, set)
		}
		lines.WriteString(`{"id":"x","server":"srv","name":"plain","description":"Without a schema."}`)
		if err := os.Mkdir(filepath.Join(dir, set), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, set, "tools.jsonl"), []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check(t, runOK(t, "-data", dir))
}

func TestServers(t *testing.T) {
	fake, err := fakemcp.New(fakemcp.Config{Bare: true, Tools: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	web := httptest.NewServer(fake)
	defer web.Close()
	write := func(task string) string {
		file := filepath.Join(t.TempDir(), "servers.json")
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"mcpServers":{"fake":{"type":"http","url":%q}},"task":[%s]}`, web.URL+"/mcp", task), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	step := func(tool, text, view string) string {
		return fmt.Sprintf(`{"query":%q,"server":"fake","tool":%q,"args":{"text":%q},"view":%s}`, tool, tool, text, view)
	}
	long := strings.Repeat("A sentence of the long text. ", 400)
	rows := runOK(t, "-servers", write(step("tool_0007", long, `{"type":"head","chars":100}`)+","+step("tool_0009", "short", "null")))
	if native, gateway := rows[modes[0].name], rows[modes[2].name]; gateway[definitions] >= native[definitions] || gateway[turns] != 6 {
		t.Errorf("native %v, gateway %v", native, gateway)
	}
	for name, task := range map[string]string{
		"no view for what is held back": step("tool_0007", long, "null"),
		"no such tool":                  step("tool_9999", "x", "null"),
		"no task":                       "",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"-servers", write(task)}, &stdout, &stderr); code != 1 || stderr.Len() == 0 {
			t.Errorf("%s: exit code %d, %q", name, code, stderr.String())
		}
	}
}

func TestWrongUse(t *testing.T) {
	for want, list := range map[int][][]string{
		2: {{"-unknown"}, {"extra"}, {"-data", "a", "-servers", "b"}},
		1: {{"-data", t.TempDir()}, {"-servers", "/no/such/file"}},
	} {
		for _, args := range list {
			var stderr bytes.Buffer
			if code := run(t.Context(), args, &stderr, &stderr); code != want || stderr.Len() == 0 {
				t.Errorf("%v: exit code %d, %q", args, code, stderr.String())
			}
		}
	}
}

func TestResultTokens(t *testing.T) {
	link := `{"type":"resource_link","uri":"file:///a"}`
	got := resultTokens([]byte(`{"content":[{"type":"text","text":"two words"},` + link + `,{"type":"image","data":"AAAA","mimeType":"image/png"}],"_meta":{"not":"read"}}`))
	if want := token.Count("two words") + token.Count(link); got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
}
