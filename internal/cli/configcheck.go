package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
	"github.com/weir-mcp/weir/mcp/stdio"
)

func configCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or show a configuration, or print its JSON Schema",
		Args:  positional(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand(a), configShowCommand(a), configSchemaCommand(a.stdout))
	return cmd
}

func configCheckCommand(a *process) *cobra.Command {
	var asJSON, strict bool
	var path string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "List everything that is wrong with a configuration",
		Long: `Read a configuration as "weir serve" would and list everything that is wrong with
it, each problem with its file, line and column. Without FILE it is the one that
"weir serve" would find here. Nothing is started. The exit code is 2 if there is
a problem; warnings do not count. What is wrong within one entry of mcpServers is
a warning, as weir serve starts the other servers; with --strict it is a problem.`,
		Args: positional(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if path != "" {
					return failf(exitUsage, "FILE and --config are the same thing: give one of them")
				}
				path = args[0]
			}
			return checkConfig(a, cmd.Context(), path, strict, asJSON)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "FILE, as the other commands have it")
	cmd.Flags().BoolVar(&strict, "strict", false, "what is wrong with one server is a problem of the whole file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// problemJSON is the JSON form of a config.Problem or Warning.
type problemJSON struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

func asProblemJSON(p config.Problem) problemJSON {
	return problemJSON{p.File, p.Line, p.Column, p.Key, p.Message}
}

func checkConfig(a *process, ctx context.Context, path string, strict, asJSON bool) error {
	found, err := findConfig(a.lookupEnv, path)
	if err != nil {
		return err
	}
	path = found.path
	opts := configOptions(a, ctx)
	opts.Strict, opts.Check, opts.Omit = strict, func(s *config.Server) error { return checkStart(a.environ, s) }, lineage.OmitItself(a.environ(), true)
	opts.Inputs = func(in config.Input) (string, bool, error) {
		if in.Type == config.InputCommand {
			return "unknown", true, nil // a check must not run programs
		}
		return answerInput(ctx, in)
	}
	c, warnings, err := config.Load(path, opts)
	if of := ofAgent(path, err); of != nil {
		warnings, err = nil, of
	}
	if err == nil {
		warnings = append(warnings, strangers(path, c)...)
	}
	var broken *config.Error
	if err != nil && !errors.As(err, &broken) {
		return err
	}
	if asJSON {
		out := struct {
			File     string        `json:"file"`
			OK       bool          `json:"ok"`
			Problems []problemJSON `json:"problems"`
			Warnings []problemJSON `json:"warnings"`
			Faulty   []string      `json:"faulty"` // servers that would not be started
			LeftOut  []problemJSON `json:"left_out"`
		}{path, err == nil, []problemJSON{}, []problemJSON{}, orEmpty(faulty(c)), []problemJSON{}}
		for _, s := range leftOut(c) {
			out.LeftOut = append(out.LeftOut, problemJSON{File: path, Key: "mcpServers." + s.Name, Message: c.Omitted(s.Name)})
		}
		if broken != nil {
			for _, p := range broken.Problems {
				out.Problems = append(out.Problems, asProblemJSON(p))
			}
		}
		for _, w := range warnings {
			out.Warnings = append(out.Warnings, asProblemJSON(config.Problem(w)))
		}
		if err := printJSON(a.stdout, out); err != nil {
			return err
		}
		if broken != nil {
			return errQuiet(exitUsage)
		}
		return nil
	}
	warn(a.stderr, warnings)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(c.Servers))
	for _, s := range c.Enabled() {
		names = append(names, s.Name)
	}
	text := path + ": ok, " + counted(len(names), "server")
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	if wrong := faulty(c); len(wrong) > 0 {
		text += fmt.Sprintf("; %d not started: %s", len(wrong), strings.Join(wrong, ", "))
	}
	if _, err = fmt.Fprintln(a.stdout, text); err != nil {
		return err
	}
	for _, s := range leftOut(c) {
		a.note("%s", c.Omitted(s.Name))
	}
	return nil
}

// leftOut returns the servers of a configuration, which may be nil, that are weir itself.
func leftOut(c *config.Config) (list []*config.Server) {
	if c == nil {
		return nil
	}
	for _, s := range c.Servers {
		if c.Omitted(s.Name) != "" {
			list = append(list, s)
		}
	}
	return list
}

// faulty returns the names of the servers with wrong entries, which would not be started. c must
// not be nil.
func faulty(c *config.Config) (names []string) {
	if c == nil {
		return nil
	}
	for _, s := range c.Servers {
		if s.Faulty() && !s.Disabled {
			names = append(names, s.Name)
		}
	}
	return names
}

// checkStart implements config.Options.Check: it looks for a server's program in the same way as
// starting it would.
func checkStart(environ func() []string, s *config.Server) error {
	env := lineage.Inherited(environ())
	for name, value := range s.Env {
		env = append(env, name+"="+value.Reveal())
	}
	return stdio.Check(stdio.Command{Path: s.Command, Env: env, Dir: s.Cwd})
}

// strangers warns about controls that name a namespace of no server in the file. Tool names can be
// checked only while the servers run: weir serve logs those that match nothing.
func strangers(path string, c *config.Config) (warnings []config.Warning) {
	spaces := map[string]bool{}
	for _, s := range c.Servers {
		spaces[s.Namespace] = true
	}
	spaces[config.SavedServer] = len(c.Programs.Saved) > 0
	look := func(key, namespace string) {
		if namespace != "" && !spaces[namespace] {
			warnings = append(warnings, config.Warning{File: path, Key: key, Message: fmt.Sprintf(
				"%s: no server of this file has the namespace %q; it is of use only if an agent or a Computer comes with it", key, namespace)})
		}
	}
	for i, r := range c.Policy.Rules {
		look(fmt.Sprintf("policy.rules[%d].namespace", i), r.Namespace)
	}
	for _, t := range c.RateLimits.PerTool {
		namespace, _, _ := strings.Cut(t.ToolID, ":")
		look("rate_limits.per_tool."+t.ToolID, namespace)
	}
	for _, id := range c.Cache.Allow {
		namespace, _, _ := strings.Cut(id, ":")
		look("cache.allow", namespace)
	}
	return warnings
}

// ofAgent returns a single problem if err arose because the file is an agent server's
// configuration, otherwise nil.
func ofAgent(path string, err error) error {
	if err == nil {
		return nil
	}
	data, readErr := place.ReadFile(path)
	var keys map[string]any
	if readErr != nil || yaml.Unmarshal(data, &keys) != nil || keys["mcpServers"] != nil {
		return nil
	}
	for _, key := range []string{"tools", "resources", "prompts", "skills"} {
		if _, is := keys[key].([]any); is {
			return &config.Error{Problems: []config.Problem{{File: path, Message: fmt.Sprintf(
				"this is the configuration of an agent server, not of a gateway; it runs with: weir agent --config %s", path)}}}
		}
	}
	return nil
}

// warn prints the warnings of a configuration.
func warn(stderr terminal, warnings []config.Warning) {
	for _, w := range warnings {
		fmt.Fprintln(stderr, stderr.paint(yellow, "warning: ")+stderr.clean(w.String()))
	}
}

func configSchemaCommand(stdout terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of weir.yaml",
		Long: `Print the JSON Schema of weir.yaml, for editors that complete and check what is
written. With the YAML language server, put this in the file's first line:

  # yaml-language-server: $schema=./weir.schema.json`,
		Example: "  weir config schema > weir.schema.json",
		Args:    positional(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := stdout.Write(config.Schema())
			return err
		},
	}
}

// configOptions returns the parts of this process that a configuration may use.
func configOptions(a *process, ctx context.Context) config.Options {
	opts := withSecrets(a, config.System())
	opts.FreePort = freePort
	opts.CheckProgram = gateway.CheckProgram
	opts.Inputs = func(in config.Input) (string, bool, error) { return answerInput(ctx, in) }
	return opts
}

const (
	// inputTimeout bounds the run time of an input's command.
	inputTimeout = 30 * time.Second
	// inputPipes is how long descendants of the command may hold its output open after its end.
	inputPipes = 200 * time.Millisecond
	// maxComplaint bounds the part of its standard error that a message repeats.
	maxComplaint = 300
)

// answerInput runs the command of an input. It never asks a person: weir may run without a
// terminal, and its standard input may carry MCP. askInputs asks people.
func answerInput(ctx context.Context, in config.Input) (string, bool, error) {
	if in.Type != config.InputCommand || in.Command == "" {
		return "", false, nil
	}
	answer, err := runInput(ctx, in, inputTimeout)
	return answer, err == nil, err
}

// runInput returns what the command of an input prints.
func runInput(ctx context.Context, in config.Input, timeout time.Duration) (string, error) {
	running, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(running, in.Command, in.Args...)
	cmd.Stdout, cmd.Stderr = &bounded{&stdout, config.MaxOutside + 2}, &bounded{&stderr, maxComplaint}
	cmd.WaitDelay = inputPipes
	err := cmd.Run()
	program := filepath.Base(in.Command)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case running.Err() != nil:
		return "", fmt.Errorf("%s did not end within %s", program, timeout)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		if said := text.Line(strings.TrimSpace(stderr.String()), maxComplaint); said != "" {
			return "", fmt.Errorf("%s failed (%w): %s", program, err, said)
		}
		return "", fmt.Errorf("%s failed: %w", program, err)
	}
	answer := strings.TrimRight(stdout.String(), "\r\n")
	if len(answer) > config.MaxOutside {
		return "", fmt.Errorf("%s printed more than %d KB", program, config.MaxOutside>>10)
	}
	return answer, nil
}

// descend returns the lineage of this process when it serves the configuration at path.
func descend(lookupEnv func(string) (string, bool), path string) (lineage.Lineage, error) {
	text, _ := lookupEnv(lineage.ParentVariable)
	return lineage.Descend(text, path)
}
