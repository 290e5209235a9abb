package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/computer"
)

// computerShell is the interactive shell of weir computer. Each line is a command, unless a
// question is pending: then the next line is the answer.
type computerShell struct {
	a         *process
	c         *computer.Computer
	questions chan question
	begun     chan struct{} // closed when the shell starts reading the keyboard
	before    func(config.Input) (string, bool, error)
	commands  []shellCommand
}

// question is a question to the person at the terminal.
type question struct {
	text   string
	answer chan string // capacity 1
	ctx    context.Context
}

// ownerKey marks the context of calls that the Computer's owner makes in this shell.
type ownerKey struct{}

type shellCommand struct {
	name, args, help string
	run              func(ctx context.Context, args string) error
}

func newComputerShell(a *process) *computerShell {
	s := &computerShell{a: a, questions: make(chan question), begun: make(chan struct{})}
	s.commands = []shellCommand{
		{"status", "", "the hub, and what is wrong", s.status},
		{"servers", "", "the MCP servers and their health", s.servers},
		{"tools", "[SERVER]", "what can be called", s.tools},
		{"call", "TOOL [JSON]", "call a tool", s.call},
		{"history", "[N]", "the latest calls", s.history},
		{"inputs", "[ID VALUE]", "the inputs, or give one a value", s.inputs},
		{"desktop", "", "the windows", s.desktop},
		{"add", "JSON|@FILE", "add MCP servers, or change the servers of the same name (update is the same)", s.add},
		{"remove", "SERVER", "take an MCP server out", func(ctx context.Context, name string) error { return s.c.Remove(ctx, name) }},
		{"enable", "SERVER", "switch an MCP server on", func(ctx context.Context, name string) error { return s.c.SetDisabled(ctx, name, false) }},
		{"disable", "SERVER", "switch an MCP server off", func(ctx context.Context, name string) error { return s.c.SetDisabled(ctx, name, true) }},
		{"join", "OFFICE", "change the office", func(ctx context.Context, office string) error { return s.c.Join(ctx, office) }},
		{"leave", "", "leave the office", func(ctx context.Context, _ string) error { return s.c.Leave(ctx) }},
		{"help", "", "this list", s.help},
		{"quit", "", "end", func(context.Context, string) error { return errQuit }},
	}
	return s
}

// errQuit ends the shell.
var errQuit = errors.New("quit")

// run reads commands until the input or ctx ends. If ctx ends, the reading goroutine stays until
// the process exits, because a blocked read of a terminal cannot be interrupted.
func (s *computerShell) run(ctx context.Context, c *computer.Computer) error {
	s.c = c
	lines := make(chan string)
	done := make(chan struct{})
	defer close(done)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(s.a.stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-done:
				return
			}
		}
	}()
	close(s.begun)
	var asked *question
	prompt := func() {
		if s.a.stdout.screen() && asked == nil {
			fmt.Fprint(s.a.stdout, s.a.stdout.paint(bold, "weir> "))
		}
	}
	prompt()
	for {
		questions := s.questions
		var gone <-chan struct{}
		if asked != nil {
			questions, gone = nil, asked.ctx.Done()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-gone:
			fmt.Fprintln(s.a.stdout, "(the call is over)")
			asked = nil
			prompt()
		case q := <-questions:
			asked = &q
			fmt.Fprintf(s.a.stdout, "\n%s ", q.text)
		case line, ok := <-lines:
			switch {
			case !ok:
				return nil
			case asked != nil:
				asked.answer <- strings.TrimSpace(line)
				asked = nil
			default:
				if err := s.do(ctx, strings.TrimSpace(line)); errors.Is(err, errQuit) {
					return nil
				} else if err != nil {
					fmt.Fprintln(s.a.stdout, s.a.stdout.paint(red, "error: ")+s.a.stdout.clean(err.Error()))
				}
			}
			prompt()
		}
	}
}

func (s *computerShell) do(ctx context.Context, line string) error {
	name, args, _ := strings.Cut(line, " ")
	args = strings.TrimSpace(args)
	switch name {
	case "":
		return nil
	case "update":
		name = "add"
	case "exit":
		name = "quit"
	case "?":
		name = "help"
	}
	i := slices.IndexFunc(s.commands, func(c shellCommand) bool { return c.name == name })
	if i < 0 {
		return fmt.Errorf("there is no command %q; type help", name)
	}
	c := s.commands[i]
	if args == "" && c.args != "" && !strings.HasPrefix(c.args, "[") {
		return fmt.Errorf("%s needs %s", c.name, c.args)
	}
	return c.run(ctx, args)
}

// question asks the person through the shell.
func (s *computerShell) question(ctx context.Context, text string) (string, error) {
	q := question{text: text, answer: make(chan string, 1), ctx: ctx}
	select {
	case s.questions <- q:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// confirm implements computer.Options.Confirm. Calls of the owner in this shell need no
// confirmation.
func (s *computerShell) confirm(ctx context.Context, c computer.Confirmation) (bool, error) {
	if owner, _ := ctx.Value(ownerKey{}).(bool); owner {
		return true, nil
	}
	answer, err := s.question(ctx, fmt.Sprintf("agent %s wants to call %s of %s with %s. Allow? [y/N]",
		s.a.stdout.clean(c.Agent), s.a.stdout.clean(c.Tool), s.a.stdout.clean(c.Server), s.a.stdout.clean(cut(string(c.Arguments), 300))))
	if err != nil {
		return false, err
	}
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), nil
}

// ask implements computer.Options.Ask. Before the shell reads the keyboard, it asks directly; later
// it asks through the shell.
func (s *computerShell) ask(ctx context.Context, in computer.Input) (string, bool, error) {
	select {
	case <-s.begun:
		return "", false, fmt.Errorf("it has no value: inputs %s VALUE gives it one", in.ID)
	default:
	}
	if s.before == nil {
		s.before = askInputs(s.a, ctx)
	}
	def := config.Input{ID: in.ID, Type: config.InputType(in.Type), Description: in.Description, Password: in.Password}
	for _, o := range in.Options {
		def.Options = append(def.Options, o.Value)
	}
	if len(in.Default) > 0 && string(in.Default) != "null" {
		text := strings.Trim(string(in.Default), `"`)
		def.Default = &text
	}
	return s.before(def)
}

func (s *computerShell) help(context.Context, string) error {
	for _, c := range s.commands {
		fmt.Fprintf(s.a.stdout, "  %-24s %s\n", c.name+" "+c.args, c.help)
	}
	return nil
}

func (s *computerShell) status(context.Context, string) error {
	out := s.a.stdout
	l := s.c.Link()
	fmt.Fprintf(out, "  name    %s\n  hub     %s\n  office  %s\n", s.c.Name(), l.State, l.Office)
	if l.Error != "" {
		fmt.Fprintf(out, "  error   %s\n", out.clean(l.Error))
	}
	ready := 0
	health := s.c.Health()
	for _, h := range health {
		if h.State == "ready" || h.State == "idle" {
			ready++
		}
	}
	fmt.Fprintf(out, "  servers %d of %d can be called\n", ready, len(health))
	for _, p := range s.c.Problems() {
		fmt.Fprintf(out, "  problem %s\n", out.clean(p))
	}
	return nil
}

func (s *computerShell) servers(context.Context, string) error {
	out := s.a.stdout
	fmt.Fprintf(out, "  %-20s %-10s %-9s %5s %6s %7s %8s\n", "SERVER", "TYPE", "STATE", "TOOLS", "CALLS", "ERRORS", "RESTARTS")
	for _, h := range s.c.Health() {
		fmt.Fprintf(out, "  %-20s %-10s %-9s %5d %6d %7d %8d\n", h.Name, h.Type, h.State, h.Tools, h.Calls, h.Errors, h.Restarts)
		if h.Error != "" {
			fmt.Fprintf(out, "      %s\n", out.clean(h.Error))
		}
	}
	return nil
}

func (s *computerShell) tools(_ context.Context, server string) error {
	out := s.a.stdout
	for _, t := range s.c.Tools("") {
		if server == "" || t.BundleID == server {
			fmt.Fprintf(out, "  %-28s %-16s %s\n", out.clean(t.Name), t.BundleID, out.clean(cut(strings.Join(strings.Fields(t.Description), " "), 80)))
		}
	}
	return nil
}

func (s *computerShell) call(ctx context.Context, args string) error {
	name, params, _ := strings.Cut(args, " ")
	params = cmp.Or(strings.TrimSpace(params), "{}")
	if !json.Valid([]byte(params)) {
		return errors.New("the arguments are no JSON")
	}
	raw := s.c.Call(context.WithValue(ctx, ownerKey{}, true), smcp.ToolCall{
		Call: smcp.Call{ReqID: "shell-" + strconv.FormatInt(time.Now().UnixNano(), 36)}, ToolName: name, Params: json.RawMessage(params),
	})
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		fmt.Fprintln(s.a.stdout, s.a.stdout.clean(indented(string(raw))))
		return nil
	}
	return printResult(s.a, &r)
}

func (s *computerShell) history(_ context.Context, args string) error {
	n := 20
	if args != "" {
		var err error
		if n, err = strconv.Atoi(args); err != nil || n < 1 {
			return fmt.Errorf("%q is no number of calls", args)
		}
	}
	records := s.c.History()
	for _, r := range records[max(0, len(records)-n):] {
		outcome := "ok"
		if !r.Success {
			outcome = "failed: " + r.Error
		}
		fmt.Fprintf(s.a.stdout, "  %s  %-16s %-24s %8s  %s\n", r.Time.Format("15:04:05"), r.Server, s.a.stdout.clean(r.Tool), r.Duration.Round(time.Millisecond), s.a.stdout.clean(outcome))
	}
	return nil
}

func (s *computerShell) inputs(ctx context.Context, args string) error {
	if id, value, ok := strings.Cut(args, " "); ok {
		raw := json.RawMessage(strings.TrimSpace(value))
		if !json.Valid(raw) {
			var err error
			if raw, err = json.Marshal(string(raw)); err != nil {
				return err
			}
		}
		err := s.c.SetInput(ctx, id, raw)
		if name, ok := s.c.InputVariable(id); ok && err == nil {
			fmt.Fprintf(s.a.stdout, "  the variable %s answers %s, and wins over this value; start weir computer without it to use the value\n", name, id)
		}
		return err
	}
	for _, in := range s.c.Inputs() {
		about := in.Description
		if name, ok := s.c.InputVariable(in.ID); ok {
			about += " (answered by the variable " + name + ")"
		}
		fmt.Fprintf(s.a.stdout, "  %-20s %-14s %s\n", in.ID, in.Type, s.a.stdout.clean(about))
	}
	return nil
}

func (s *computerShell) desktop(ctx context.Context, _ string) error {
	for _, w := range s.c.Desktop(ctx, -1, "") {
		fmt.Fprintf(s.a.stdout, "%s\n\n", s.a.stdout.clean(w))
	}
	return nil
}

func (s *computerShell) add(ctx context.Context, args string) error {
	data := []byte(args)
	name := "the shell"
	if file, ok := strings.CutPrefix(args, "@"); ok {
		f, err := place.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if data, err = io.ReadAll(io.LimitReader(f, 1<<20)); err != nil {
			return err
		}
		name = file
	}
	f, err := computer.Parse(name, data)
	if err != nil {
		return err
	}
	for _, server := range f.Servers {
		if err := s.c.Put(ctx, server); err != nil {
			return err
		}
	}
	return nil
}
