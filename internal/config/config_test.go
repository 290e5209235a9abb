package config

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/json/strict"
)

func parse(t *testing.T, text string, opts Options) *Config {
	t.Helper()
	c, _, err := Parse("weir.yaml", []byte(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSecretIsMasked(t *testing.T) {
	const hidden = "very-secret-value"
	type holder struct {
		S Secret
		M map[string]Secret
		P *Secret
	}
	s := Secret(hidden)
	h := holder{s, map[string]Secret{"a": s}, &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%s", "%q", "%x", "%X", "%d", "%+v", "%#v", "%t", "%10s"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", h)
		fmt.Fprintf(&out, verb+"\n", []Secret{s})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s, "h", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s, "h", h)
	j, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(map[string]any{"s": s, "h": h.M})
	if err != nil {
		t.Fatal(err)
	}
	all := out.String() + string(j) + string(y)
	for _, form := range []string{hidden, hex.EncodeToString([]byte(hidden)), strings.ToUpper(hex.EncodeToString([]byte(hidden)))} {
		if strings.Contains(all, form) {
			t.Errorf("%q is shown in:\n%s", form, all)
		}
	}
	if !strings.Contains(string(j), "[redacted]") || s.Reveal() != hidden || Secret("").String() != "" {
		t.Errorf("json %s, revealed %q", j, s.Reveal())
	}
}

func TestMetricsTokens(t *testing.T) {
	auth := Auth{Tokens: []Token{{Name: "all"}, {Name: "prom", Metrics: true}, {Name: "both", Metrics: true, Agents: []string{"a"}}, {Name: "one", Agents: []string{"a"}}, {Name: "star", Metrics: true, Agents: []string{"*"}}}}
	for _, c := range []struct {
		name                          string
		scoped, only, metrics, reachA bool
	}{
		{"all", false, false, true, true}, {"prom", true, true, true, false}, {"both", true, false, true, true}, {"one", true, false, false, true},
		{"star", false, false, true, true}, {"nobody", false, false, false, false},
	} {
		if auth.Scoped(c.name) != c.scoped || auth.MetricsOnly(c.name) != c.only || auth.SeesMetrics(c.name) != c.metrics || auth.Reaches(c.name, "a") != c.reachA {
			t.Errorf("%s: scoped %t, only %t, sees %t, reaches %t", c.name, auth.Scoped(c.name), auth.MetricsOnly(c.name), auth.SeesMetrics(c.name), auth.Reaches(c.name, "a"))
		}
	}
}

// TestListenOverride: a flag takes the file's place before the rule about open
// listeners is applied, in both directions.
func TestListenOverride(t *testing.T) {
	open, local := "listen: 0.0.0.0:1\nmcpServers: {a: {command: x}}", "mcpServers: {a: {command: x}}"
	if c := parse(t, open, Options{Listen: "[::1]:0", Mode: ModeProxy}); c.Listen != "[::1]:0" || c.Mode != ModeProxy {
		t.Errorf("listen %s, mode %s", c.Listen, c.Mode)
	}
	for _, listen := range []string{"0.0.0.0:1", "[::]:1", ":1", "192.168.1.2:80", "example.com:80", "127.0.0.1.example.com:1"} {
		_, _, err := Parse("weir.yaml", []byte(local), Options{Listen: listen})
		if err == nil || !strings.Contains(err.Error(), "no auth.tokens are configured") {
			t.Errorf("listen %s: %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
		parse(t, local, Options{Listen: listen})
	}
	if _, _, err := Parse("weir.yaml", []byte(local), Options{Mode: "gate"}); err == nil || !strings.Contains(err.Error(), "gateway or proxy") {
		t.Errorf("mode: %v", err)
	}
}

func TestInputsAreAskedOnce(t *testing.T) {
	const text = `
inputs: [{id: key, password: true}, {id: unused}, {id: pick, type: pickString, options: [a, b]}]
mcpServers:
  a: {command: x, args: ["${input:key}", "${input:pick}"], env: {K: "${input:key}"}}
  b: {command: x, args: ["${input:key}"]}
  off: {command: x, args: ["${input:unused}"], disabled: true}
`
	var asked []string
	answers := map[string]string{"key": "typed-in", "pick": "b"}
	opts := Options{Strict: true, Inputs: func(in Input) (string, bool, error) {
		asked = append(asked, in.ID)
		return answers[in.ID], true, nil
	}}
	c := parse(t, text, opts)
	if want := []string{"key", "pick"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	a, _ := c.Server("a")
	if !slices.Equal(a.Args, []string{"typed-in", "b"}) || a.Env["K"].Reveal() != "typed-in" {
		t.Errorf("args %v", a.Args)
	}
	if !slices.Contains(c.Secrets(), "typed-in") {
		t.Errorf("secrets %q", c.Secrets())
	}

	answers["pick"] = "c"
	if _, _, err := Parse("weir.yaml", []byte(text), opts); err == nil || !strings.Contains(err.Error(), `must be one of its options: "a" or "b"`) {
		t.Errorf("err = %v", err)
	}
	stop := errors.New("interrupted")
	opts.Inputs = func(Input) (string, bool, error) { return "", false, stop }
	if _, _, err := Parse("weir.yaml", []byte(text), opts); !errors.Is(err, stop) {
		t.Errorf("err = %v", err)
	}

	// Who presses Ctrl-C at a question wants no gateway without that server.
	opts.Strict = false
	opts.Inputs = func(Input) (string, bool, error) { return "", false, context.Canceled }
	if _, _, err := Parse("weir.yaml", []byte(text), opts); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestPorts(t *testing.T) {
	const text = "mcpServers:\n a: {command: x, args: ['${weir:port}', '${weir:port}']}\n b: {command: x, args: ['${weir:port}']}"
	c := parse(t, text, Options{})
	a, _ := c.Server("a")
	b, _ := c.Server("b")
	if a.Args[0] != a.Args[1] || a.Args[0] == b.Args[0] {
		t.Errorf("a %v, b %v", a.Args, b.Args)
	}
	if n, err := strconv.Atoi(a.Args[0]); err != nil || n < 1024 || n > 65535 {
		t.Errorf("port %q", a.Args[0])
	}
	// One that is always the same can serve one entry only.
	same := Options{Strict: true, FreePort: func() (int, error) { return 5, nil }}
	if _, _, err := Parse("weir.yaml", []byte(text), same); err == nil || !strings.Contains(err.Error(), "mcpServers.b.args[0]: no free port") {
		t.Errorf("err = %v", err)
	}
}

func TestLoadAndFind(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Find(dir)
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("err = %v", err)
	}
	for _, want := range []string{dir, "weir.yaml, weir.yml, weir.json, .mcp.json", "--config", "mcpServers:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	own := ""
	for _, name := range []string{".mcp.json", "weir.json", "weir.yml", "weir.yaml"} { // worst first
		if own != "" {
			write(name, "")
			if _, err := Find(dir); err == nil || !strings.Contains(err.Error(), own) || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
				t.Errorf("two of weir's own: %v", err)
			}
			if err := os.Remove(own); err != nil {
				t.Fatal(err)
			}
		}
		if name != ".mcp.json" {
			own = filepath.Join(dir, name)
		}
		write(name, `{"mcpServers": {"a": {"command": "./run", "cwd": "sub"}}}`)
		path, err := Find(dir)
		if err != nil || filepath.Base(path) != name {
			t.Fatalf("Find = %q, %v; want %s", path, err, name)
		}
		c, _, err := Load(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a, _ := c.Server("a"); a.Cwd != filepath.Join(dir, "sub") || a.Command != filepath.Join(dir, "sub", "run") {
			t.Errorf("%s: cwd %s, command %s", name, a.Cwd, a.Command)
		}
		if c.Path() != path {
			t.Errorf("path %s", c.Path())
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("big.yaml", strings.Repeat("#", strict.MaxFile+1))
	for path, want := range map[string]string{
		"absent.yaml": "there is no such file", "d": "cannot be read", "big.yaml": "larger than 8 MB",
	} {
		_, _, err := Load(filepath.Join(dir, path), Options{})
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAliasesCannotMultiply(t *testing.T) {
	var text strings.Builder
	text.WriteString("mcpServers:\n  a: &a {command: x, args: [" + strings.Repeat("x,", 5000) + "x]}\n")
	for i := range 5000 {
		fmt.Fprintf(&text, "  s%d: *a\n", i)
	}
	_, _, err := Parse("weir.yaml", []byte(text.String()), Options{})
	var problems *Error
	if !errors.As(err, &problems) || strings.Count(err.Error(), "aliases that multiply") != 1 {
		t.Fatalf("err = %.300v", err)
	}
}

func TestDiff(t *testing.T) {
	const base = `
mcpServers:
  a: {command: x, env: {A: one}}
  b: {command: y, args: []}
  c: {command: z}
`
	old := parse(t, base, Options{})
	for _, tc := range []struct {
		name, text string
		want       string
	}{
		{"order and comments", "# moved\nmcpServers:\n  c: {command: z}\n  b: {command: y}\n  a: {env: {A: one}, command: x}", "[] [] [] []"},
		{"env changed", strings.Replace(base, "one", "two", 1), "[] [] [a] []"},
		{"added and removed", strings.Replace(base, "c:", "d:", 1), "[d] [c] [] []"},
		{"switched off", strings.Replace(base, "c: {", "c: {disabled: true, ", 1), "[] [c] [] []"},
		{"other", base + "log: {level: debug}\nlisten: 127.0.0.1:1\n", "[] [] [] [listen log]"},
		{"spelled-out default", base + "listen: 127.0.0.1:8088\n", "[] [] [] []"},
	} {
		d := Diff(old, parse(t, tc.text, Options{}))
		if got := fmt.Sprint(d.Added, d.Removed, d.Changed, d.Other); got != tc.want || d.Empty() != (tc.want == "[] [] [] []") {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if d := Diff(nil, old); !slices.Equal(d.Added, []string{"a", "b", "c"}) || len(d.Other) != 0 {
		t.Errorf("from nothing: %+v", d)
	}
}

func FuzzParse(f *testing.F) {
	cases, err := filepath.Glob("testdata/*.case")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range cases {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.Contains(string(data), ".json --\n"), data[bytes.IndexByte(data, '\n')+1:])
	}
	f.Add(true, []byte(`{"mcpServers":{"a":{"command":"${A:-${B:-c}}"}}/*`))
	f.Add(false, []byte("a: &a [*a]\n<<: *a"))
	opts := Options{
		LookupEnv: func(name string) (string, bool) { return name, len(name)%2 == 0 },
		FreePort:  func() (int, error) { return 1, nil },
		Dir:       "/dir",
	}
	f.Fuzz(func(t *testing.T, isJSON bool, data []byte) {
		name := "weir.yaml"
		if isJSON {
			name = ".mcp.json"
		}
		c, warnings, err := Parse(name, data, opts)
		if (c == nil) != (err != nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		if err != nil {
			var typed *Error
			if !errors.As(err, &typed) || len(typed.Problems) == 0 {
				t.Fatalf("not a list of problems: %#v", err)
			}
			for _, p := range typed.Problems {
				if strings.ContainsAny(p.Message, "\n\r\x1b") || p.Message == "" {
					t.Fatalf("not one line: %q", p.Message)
				}
			}
			return
		}
		_ = warnings
		names := map[string]bool{}
		for _, s := range c.Servers {
			if !legalName(s.Name) || names[s.Name] || namespaceOf(s.Namespace) != s.Namespace {
				t.Fatalf("server %q, namespace %q", s.Name, s.Namespace)
			}
			names[s.Name] = true
			if !s.Disabled && s.Command == "" && s.URL == "" {
				t.Fatalf("server %q has neither command nor url", s.Name)
			}
		}
		if d := Diff(c, c); !d.Empty() {
			t.Fatalf("differs from itself: %+v", d)
		}
	})
}

// TestEveryProblemIsReported: no bound hides a problem, however many there are.
func TestEveryProblemIsReported(t *testing.T) {
	const servers = 20_000
	var text strings.Builder
	text.WriteString(`{"mcpServers": {`)
	for i := range servers {
		fmt.Fprintf(&text, `"s%d": {"command": "", "url": ""},`, i)
	}
	text.WriteString("}}")
	_, _, err := Parse(".mcp.json", []byte(text.String()), Options{Strict: true})
	var problems *Error
	if !errors.As(err, &problems) || len(problems.Problems) != 2*servers {
		t.Fatalf("err = %.300v", err)
	}
}

// A reason is one line, however it is written.
func TestReasonOfAPolicyIsOneLine(t *testing.T) {
	c, _, err := Parse("weir.yaml", []byte("mcpServers: {a: {command: a}}\npolicy:\n  rules:\n  - action: deny\n    reason: |\n      ask the\n      owner\n"), Options{})
	if err != nil || c.Policy.Rules[0].Reason != "ask the owner" {
		t.Errorf("%v, %q", err, c.Policy.Rules[0].Reason)
	}
}
