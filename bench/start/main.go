package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("start", flag.ContinueOnError)
	program := flags.String("weir", "bin/weir", "the program")
	tools := flags.Int("tools", 10_000, "tools of the catalog")
	rounds := flags.Int("rounds", 15, "how often each is measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-start-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{ctx: ctx, program: *program, dir: dir, tools: *tools, rounds: *rounds, out: out}
	if err := os.WriteFile(filepath.Join(dir, "many.json"), catalogOf(*tools), 0o600); err != nil {
		return err
	}
	fmt.Fprintln(out, "| | median | best | CPU | bound |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- |")
	if err := b.commands("weir --version", 15, "--version"); err != nil {
		return err
	}
	if err := b.configure([]byte(`{"mcpServers":{}}`)); err != nil {
		return err
	}
	if err := b.firstBrowses(); err != nil {
		return err
	}
	server := newEcho()
	defer server.close()
	if err := b.configure(server.config()); err != nil {
		return err
	}
	gateway, err := b.serve()
	if err != nil {
		return err
	}
	defer gateway.end()
	if err := gateway.browse(ctx); err != nil {
		return err
	}
	at := "--url=" + gateway.url
	for _, command := range [][]string{{"ls", at}, {"browse", "/", at}, {"search", "list issues", at}, {"call", "echo", at}} {
		if err := b.commands("weir "+command[0], 30, command...); err != nil {
			return err
		}
	}
	return nil
}

// bench measures one program.
type bench struct {
	ctx     context.Context
	program string
	dir     string // HOME of the started programs
	tools   int
	rounds  int
	out     io.Writer
}

// catalogOf returns a snapshot file.
func catalogOf(tools int) []byte {
	verbs := []string{"list", "get", "create", "update", "delete", "search", "export", "import", "merge", "watch"}
	nouns := []string{"issue", "file", "invoice", "customer", "deployment", "event", "message", "request", "metric", "image"}
	list := make([]json.RawMessage, tools)
	for i := range list {
		verb, noun := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)]
		list[i] = fmt.Appendf(nil, `{"name":"%s_%s_%d","description":"%s one or more %ss of project %d and return what changed.","inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"which %s"},"project":{"type":"string"}}}}`,
			verb, noun, i, verb, noun, i/100, noun)
	}
	out, err := json.Marshal(list)
	if err != nil {
		panic(err) // cannot happen: the elements are JSON
	}
	return out
}

// configure writes the configuration of the next gateway, in JSON, which is YAML as well.
func (b *bench) configure(text []byte) error {
	return os.WriteFile(filepath.Join(b.dir, "weir.yaml"), text, 0o600)
}

// command returns a process of the program, with a HOME of its own.
func (b *bench) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(b.ctx, b.program, args...)
	c.Env = append(c.Environ(), "HOME="+b.dir, "XDG_CONFIG_HOME="+b.dir, "XDG_STATE_HOME="+b.dir, "XDG_CACHE_HOME="+b.dir)
	return c
}

// took is the time of one process.
type took struct{ wall, cpu time.Duration }

// print prints a row of the table. The bound is in milliseconds.
func (b *bench) print(what string, bound int, all []took) {
	slices.SortFunc(all, func(x, y took) int { return int(x.wall - y.wall) })
	cpu := make([]time.Duration, len(all))
	for i, one := range all {
		cpu[i] = one.cpu
	}
	slices.Sort(cpu)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
	fmt.Fprintf(b.out, "| %s | %s | %s | %s | %d ms |\n", what, ms(all[len(all)/2].wall), ms(all[0].wall), ms(cpu[len(cpu)/2]), bound)
}

// commands measures a command of the shell.
func (b *bench) commands(what string, bound int, args ...string) error {
	var all []took
	for range b.rounds {
		c := b.command(args...)
		began := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("weir %s: %w: %.300s", strings.Join(args, " "), err, out)
		}
		all = append(all, took{time.Since(began), c.ProcessState.UserTime() + c.ProcessState.SystemTime()})
	}
	b.print(what, bound, all)
	return nil
}

// gateway is a running one.
type gateway struct {
	process *exec.Cmd
	url     string
	said    *bytes.Buffer
}

// serve starts a gateway with the catalog.
func (b *bench) serve() (*gateway, error) {
	g := &gateway{said: new(bytes.Buffer)}
	g.process = b.command("serve", "--config", filepath.Join(b.dir, "weir.yaml"), "--listen", "127.0.0.1:0", "--catalog", filepath.Join(b.dir, "many.json"))
	g.process.Stderr = g.said
	told, err := g.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.process.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(told)
	for g.url == "" && lines.Scan() {
		if at := address.FindString(lines.Text()); at != "" {
			g.url = at + "/mcp"
		}
	}
	if g.url == "" {
		g.end() // nothing writes to said after that
		return nil, fmt.Errorf("the gateway did not say where it listens: %.500s", g.said)
	}
	go func() { _, _ = io.Copy(io.Discard, told) }() // until the end of the process
	return g, nil
}

// address is the address of the gateway's listener.
var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// end kills the process. It may be called more than once.
func (g *gateway) end() {
	_ = g.process.Process.Kill()
	_ = g.process.Wait() // killed
}

// browse waits until the catalog is browsed.
func (g *gateway) browse(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := g.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			g.end() // nothing writes to said after that
			return fmt.Errorf("no browse was answered: %w: %.500s", err, g.said)
		case <-time.After(time.Millisecond):
		}
	}
}

func (g *gateway) ask(ctx context.Context) error {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_browse","arguments":{"path":"/"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"start","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "tool_browse"} {
		r.Header.Set(key, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte("/create")) {
		return fmt.Errorf("HTTP %d: %.300s", answer.StatusCode, text)
	}
	return nil
}

// firstBrowses measures the time from the start of the process to the first browse.
func (b *bench) firstBrowses() error {
	var all []took
	for range b.rounds {
		began := time.Now()
		g, err := b.serve()
		if err != nil {
			return err
		}
		err = g.browse(b.ctx)
		wall := time.Since(began)
		g.end()
		if err != nil {
			return err
		}
		all = append(all, took{wall, g.process.ProcessState.UserTime() + g.process.ProcessState.SystemTime()})
	}
	b.print(fmt.Sprintf("first browse of %d tools", b.tools), 300, all)
	return nil
}
