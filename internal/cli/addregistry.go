package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/machine"
	"github.com/weir-mcp/weir/internal/setup/mcpregistry"
)

// registryHits bounds the servers that a search offers.
const registryHits = 9

// asksRegistry reports whether the arguments of weir add name a server of the registry: they are an
// id, or words that are neither a file nor a client.
func asksRegistry(args []string, dash int) bool {
	if dash >= 0 || len(args) == 2 && strings.Contains(args[1], "://") {
		return false
	}
	if len(args) > 1 || strings.Contains(args[0], " ") {
		return true
	}
	if _, err := os.Stat(args[0]); err == nil {
		return false
	}
	return strings.Count(args[0], "/") == 1 && !strings.HasPrefix(args[0], ".") && !strings.HasPrefix(args[0], "/") && !strings.HasSuffix(args[0], ".json") && !isBundle(args[0])
}

// addFromRegistry plans to add a server of the MCP Registry.
func addFromRegistry(a *process, ctx context.Context, m *setup.Machine, words string, r addRequest) (*setup.Plan, error) {
	if len(r.headers) > 0 || r.cwd != "" || r.kind != "" {
		return nil, errors.New("the registry says everything of its servers: leave --header, --cwd and --type out")
	}
	registry, err := registryClient(a, m, r)
	if err != nil {
		return nil, err
	}
	stop := a.spin("asking the registry")
	server, err := fromRegistry(a, ctx, registry, words, stop)
	stop()
	if err != nil {
		return nil, err
	}
	return addPublished(a, ctx, m, server, r)
}

// registryClient returns the registry of a command, with its cache in the state folder. It is the
// registry of --registry, else of the configuration which changes, else of the MCP project.
func registryClient(a *process, m *setup.Machine, r addRequest) (*mcpregistry.Client, error) {
	state, err := places(a.lookupEnv).State()
	if err != nil {
		return nil, err
	}
	at := r.registry
	if at == "" {
		if at, err = configuredRegistry(a, m.Config); err != nil {
			return nil, err
		}
	}
	return mcpregistry.New(mcpregistry.Options{URL: at, CacheDir: filepath.Join(state, "registry")})
}

// configuredRegistry returns registry.url of a configuration, or "" if there is none. It names the
// address, because the file may have come with a folder of others.
func configuredRegistry(a *process, file string) (string, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	opts := withSecrets(a, config.System())
	opts.Inputs = func(config.Input) (string, bool, error) { return "unknown", true, nil }
	c, _, err := config.Load(file, opts)
	if err != nil {
		return "", err
	}
	if at := c.Registry.URL; at != "" {
		a.note("the registry is %s, as %s says", at, a.tilde(file))
	}
	return c.Registry.URL, nil
}

// addPublishedBundle loads a bundle that a document of the registry names, and plans to add it.
func addPublishedBundle(a *process, ctx context.Context, m *setup.Machine, b mcpregistry.Bundle, r addRequest) (*setup.Plan, error) {
	registry, err := registryClient(a, m, r)
	if err != nil {
		return nil, err
	}
	stop := a.spin("loading " + oneLine(b.URL))
	file, err := registry.Bundle(ctx, b)
	stop()
	if err != nil {
		return nil, &failure{exitUnavailable, err}
	}
	return addBundle(a, ctx, m, file, r)
}

// addPublished plans to add the server of a document of the registry.
func addPublished(a *process, ctx context.Context, m *setup.Machine, server mcpregistry.Server, r addRequest) (*setup.Plan, error) {
	plan, err := machine.RunsHere(server)
	if err != nil {
		return nil, err
	}
	if plan.Warning != "" {
		a.note("%s", plan.Warning)
	}
	if plan.Bundle != nil {
		return addPublishedBundle(a, ctx, m, *plan.Bundle, r)
	}
	answers, err := askSettings(a, ctx, plan, append(slices.Clone(r.env), r.set...))
	if err != nil {
		return nil, err
	}
	a.note("%s %s, %s", server.Name, server.Version, plan.Kind)
	p, err := machine.PlanPublished(m, plan, r.name, answers)
	if errors.Is(err, machine.ErrAnswers) {
		err = fmt.Errorf("%w; give settings with --set NAME=VALUE, or --env", err)
	}
	return p, err
}

// fromRegistry returns the server with an id, or the one that a person chooses among those that the
// words find.
func fromRegistry(a *process, ctx context.Context, registry *mcpregistry.Client, words string, stop func()) (mcpregistry.Server, error) {
	if strings.Contains(words, "/") {
		server, age, err := registry.Latest(ctx, words)
		if err == nil && age > 0 {
			a.note("the registry cannot be reached; this is its answer of %s ago", age.Round(1e9))
		}
		if err != nil && !errors.Is(err, mcpregistry.ErrMissing) {
			err = &failure{exitUnavailable, err}
		}
		return server, err
	}
	hits, _, err := registry.Search(ctx, words, registryHits)
	stop()
	switch {
	case err != nil:
		return mcpregistry.Server{}, &failure{exitUnavailable, err}
	case len(hits) == 0:
		return mcpregistry.Server{}, fmt.Errorf("the registry has nothing for %q", words)
	}
	for i, hit := range hits {
		fmt.Fprintf(a.stderr, "  %d  %s\n", i+1, cut(a.stderr.clean(hit.Name+"  "+oneLine(hit.Description)), a.stderr.width-6))
	}
	q, ok := newQuestions(a)
	if !ok {
		return mcpregistry.Server{}, fmt.Errorf("these servers fit %q, and there is no terminal to ask at: name one by its ID", words)
	}
	for {
		answer, err := q.line(ctx, a.stderr.paint(bold, "Which one?"), false)
		if err != nil {
			return mcpregistry.Server{}, err
		}
		if n, err := strconv.Atoi(strings.TrimSpace(answer)); err == nil && n >= 1 && n <= len(hits) {
			return hits[n-1], nil
		}
		fmt.Fprintln(a.stderr, "That is none of the numbers.")
	}
}

// askSettings returns the answers to a plan's questions: from --set and --env, and at a terminal from the
// person.
func askSettings(a *process, ctx context.Context, plan *mcpregistry.Plan, given []string) (map[string]string, error) {
	answers, err := pairs(given, "=", "--set", "NAME=VALUE")
	if err != nil {
		return nil, err
	}
	q, ok := newQuestions(a)
	for _, question := range plan.Questions {
		if _, known := answers[question.ID]; known || !ok {
			continue
		}
		in := config.Input{ID: question.ID, Description: question.ID, Password: question.Secret, Options: question.Choices}
		if question.Description != "" {
			in.Description += " (" + oneLine(question.Description) + ")"
		}
		if question.Default != "" {
			in.Default = &question.Default
		}
		answer, answered, err := q.ask(ctx, in)
		if err != nil {
			return nil, err
		}
		if answered {
			answers[question.ID] = answer
		}
	}
	return answers, nil
}
