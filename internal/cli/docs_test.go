package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
)

var update = flag.Bool("update", false, "write the generated parts of docs/")

// TestDocs keeps the generated parts of the documents with what they are
// generated from.
func TestDocs(t *testing.T) {
	generated := map[string]string{
		"exit-codes": exitCodeTable(),
		"commands":   commandReference(),
		"inherited":  "`" + strings.Join(lineage.InheritedNames(), "`, `") + "`\n",
		"keys":       keyTable(t),
		"findings":   doctor.Markdown(),
	}
	section := regexp.MustCompile(`(?s)<!-- generated: ([a-z-]+) -->\n.*?<!-- end -->`)
	seen := map[string]bool{}
	for _, name := range []string{"../../docs/cli.md", "../../docs/config.md", "../../docs/troubleshooting.md"} {
		old, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := section.ReplaceAllStringFunc(string(old), func(part string) string {
			key := section.FindStringSubmatch(part)[1]
			seen[key] = true
			if generated[key] == "" {
				t.Errorf("%s: nothing generates %q", name, key)
			}
			return fmt.Sprintf("<!-- generated: %s -->\n%s<!-- end -->", key, generated[key])
		})
		switch {
		case text == string(old):
		case *update:
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is not what the program says: run go test ./internal/cli -run TestDocs -update", name)
		}
	}
	for key := range generated {
		if !seen[key] {
			t.Errorf("no document has a part %q", key)
		}
	}
}

// commandReference describes every command with its flags.
func commandReference() string {
	var b strings.Builder
	a := &process{lookupEnv: os.LookupEnv, version: "devel"}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() && cmd.HasParent() && len(cmd.Commands()) == 0 && cmd.Name() != "help" && !cmd.Hidden {
			fmt.Fprintf(&b, "### %s\n\n%s\n\n    %s\n", cmd.CommandPath(), cmd.Short+".", cmd.UseLine())
			var flags []string
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name == "help" {
					return
				}
				name := "--" + f.Name
				if f.Shorthand != "" {
					name = "-" + f.Shorthand + ", " + name
				}
				usage := strings.ReplaceAll(f.Usage, "|", "\\|")
				if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) && !strings.Contains(usage, "default") {
					usage += " (default `" + f.DefValue + "`)"
				}
				flags = append(flags, fmt.Sprintf("| `%s` | %s |\n", name, usage))
			})
			if len(flags) > 0 {
				b.WriteString("\n| flag | |\n| --- | --- |\n" + strings.Join(flags, ""))
			}
			b.WriteByte('\n')
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(a))
	return b.String()
}

// keyTable lists the keys of a configuration from its JSON Schema.
func keyTable(t *testing.T) string {
	var root schemaNode
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| key | default | |\n| --- | --- | --- |\n")
	root.rows(&b, "")
	return b.String()
}

// schemaNode is a JSON Schema whose properties keep their order.
type schemaNode struct {
	Description string
	Default     json.RawMessage
	Enum        []json.RawMessage
	Items       *schemaNode
	Properties  json.RawMessage
	Additional  json.RawMessage `json:"additionalProperties"`
	AnyOf       []schemaNode
	Required    []string
}

func (n *schemaNode) rows(b *strings.Builder, path string) {
	for _, key := range orderedKeys(n.Properties) {
		var all map[string]schemaNode
		if json.Unmarshal(n.Properties, &all) != nil {
			continue
		}
		p := all[key]
		at := strings.TrimPrefix(path+"."+key, ".")
		text := strings.ReplaceAll(p.Description, "|", "\\|")
		if len(p.Enum) > 0 {
			values := make([]string, len(p.Enum))
			for i, v := range p.Enum {
				values[i] = "`" + strings.Trim(string(v), `"`) + "`"
			}
			text += " One of " + strings.Join(values, ", ") + "."
		}
		def := strings.Trim(string(p.Default), `"`)
		switch {
		case def != "":
			def = "`" + def + "`"
		case slices.Contains(n.Required, key):
			def = "required"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", at, def, text)
		p.rows(b, at)
		if p.Items != nil {
			p.Items.rows(b, at+"[]")
		}
		var values schemaNode
		if json.Unmarshal(p.Additional, &values) == nil && values.Properties != nil {
			values.rows(b, at+".NAME")
		}
	}
}

// orderedKeys returns the keys of an object in their order.
func orderedKeys(raw json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(raw))
	var keys []string
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return keys
		}
		keys = append(keys, key.(string))
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return keys
		}
	}
	return keys
}

// block is a run of shell commands in a document.
type block struct {
	line     int
	commands []string
	code     int // that each of them ends with
}

var exitComment = regexp.MustCompile(`^<!-- exit (\d+) -->$`)

// blocks returns the blocks of a document that are marked sh.
func blocks(t *testing.T, name string) []block {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []block
	var current *block
	code := 0
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case current != nil && line == "```":
			all = append(all, *current)
			current, code = nil, 0
		case current != nil:
			current.commands = append(current.commands, line)
		case line == "```sh":
			current = &block{line: n, code: code}
		default:
			if m := exitComment.FindStringSubmatch(line); m != nil {
				code, _ = strconv.Atoi(m[1])
			} else if line != "" {
				code = 0
			}
		}
	}
	return all
}

// TestDocumentsRun runs what the documents tell a reader to type: each document
// in order, with one gateway, as docs/cli.md says. Commands that are no weir
// (make, npx) are left to their own tests.
func TestDocumentsRun(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	documents = append(documents, "../../README.md", "../../examples/quickstart/README.md", "../../examples/agents/README.md")
	ran := 0
	documents = append(documents, "../../examples/s2sp/README.md")
	for _, name := range documents {
		blocks := blocks(t, name)
		if len(blocks) == 0 {
			continue
		}
		t.Run(strings.TrimPrefix(name, "../../"), func(t *testing.T) {
			r := &reader{t: t}
			for _, b := range blocks {
				for _, command := range b.commands {
					if r.run(fmt.Sprintf("%s:%d", name, b.line), command, b.code) {
						ran++
					}
				}
			}
		})
	}
	if ran < 20 {
		t.Errorf("only %d commands were run: are the blocks still marked sh?", ran)
	}
}

// reader is somebody who types what a document says.
type reader struct {
	t      *testing.T
	server *server
	handle string
	url    string // resource_url, or ddi:// handle
}

// run types one line, and reports whether it was a weir.
func (r *reader) run(where, line string, code int) bool {
	t := r.t
	line, ours := strings.CutPrefix(strings.Replace(line, "go run ./cmd/weir ", "weir ", 1), "weir ")
	if !ours {
		return false
	}
	if strings.HasPrefix(line, "serve ") {
		config, ok := strings.CutPrefix(line, "serve --config ")
		if !ok || strings.Contains(config, " ") {
			t.Fatalf("%s: the test starts no gateway with %q", where, line)
		}
		args := []string{"serve", "--config", filepath.Join("../..", config), "--listen", "127.0.0.1:0"}
		// A server that is told from whom it may fetch is told of the port that is used here.
		if text, err := os.ReadFile(args[2]); err == nil && bytes.Contains(text, []byte("--allow, ")) {
			path := filepath.Join(t.TempDir(), filepath.Base(config))
			if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("127.0.0.1:8088"), []byte(freeAddress(t))), 0o600); err != nil {
				t.Fatal(err)
			}
			args = []string{"serve", "--config", path}
		}
		r.server = start(t, config, args...)
		return true
	}
	if r.server != nil {
		line = strings.ReplaceAll(line, "http://127.0.0.1:8088", r.server.base)
	}
	if strings.HasPrefix(line, "agent ") {
		r.agent(where, strings.Fields(line))
		return true
	}
	if strings.HasPrefix(line, "computer ") {
		r.computer(where, strings.Fields(line)[1:])
		return true
	}
	line = strings.ReplaceAll(strings.ReplaceAll(line, "HANDLE", r.handle), "RESOURCE_URL", r.url)
	line = strings.ReplaceAll(line, "-o /tmp/", "-o "+t.TempDir()+"/")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `"$0" `+line, weirBin)
	cmd.Dir, cmd.Env = "../..", environment()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	cmd.WaitDelay = time.Second
	_ = cmd.Run() // the exit code says it all
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s: weir %s\nexit code %d, want %d: %s", where, line, got, code, out.String())
	}
	if found := handlePattern.FindString(out.String()); found != "" {
		r.handle = found
	}
	if found := resourcePattern.FindString(out.String()); found != "" {
		r.url = found
	}
	return true
}

// agent starts an agent server beside the gateway and waits until that knows it.
func (r *reader) agent(where string, args []string) {
	t := r.t
	at := slices.Index(args, "--config")
	if r.server == nil || at < 0 || at+1 == len(args) {
		t.Fatalf("%s: the test starts an agent behind a weir serve, with --config", where)
	}
	args[at+1] = filepath.Join("../..", args[at+1])
	if port := slices.Index(args, "--port"); port >= 0 {
		args = slices.Delete(args, port, port+2)
	}
	known := func() int {
		_, body := get(t, r.server.base+"/agents")
		return strings.Count(body, `"url"`)
	}
	before := known()
	port := r.server.base[strings.LastIndexByte(r.server.base, ':')+1:]
	env := []string{"ROUTER_HOST=127.0.0.1", "ROUTER_PORT=" + port, "PATH=" + filepath.Dir(weirBin) + ":" + os.Getenv("PATH")}
	startWith(t, env, args[at+1], append(args, "--port", "0")...)
	for end := time.Now().Add(20 * time.Second); known() == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: the agent did not register", where)
		}
	}
}

// computer starts a Computer beside the gateway and waits until its servers are
// upstreams.
func (r *reader) computer(where string, args []string) {
	t := r.t
	if r.server == nil {
		t.Fatalf("%s: the test starts a Computer behind a weir serve", where)
	}
	startComputer(t, "../..", "PATH="+filepath.Dir(weirBin)+":"+os.Getenv("PATH"), args...)
	r.server.await("the Computer's servers", func(h gateway.Health) bool {
		for _, u := range h.Upstreams {
			if u.Tools > 0 {
				return true
			}
		}
		return false
	})
}

// TestBlocks keeps the test above honest about what it takes for a command.
func TestBlocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "doc.md")
	text := "```sh\nweir ls\n```\n\n<!-- exit 2 -->\n\n```sh\nweir x\nweir y\n```\n<!-- exit 3 -->\nwords\n```sh\nweir z\n```\n```console\n$ weir no\n```\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(blocks(t, name))
	if want := "[{1 [weir ls] 0} {7 [weir x weir y] 2} {13 [weir z] 0}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
