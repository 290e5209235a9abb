package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/bundle"
	"github.com/weir-mcp/weir/internal/setup/clients"
)

// importRequest are the arguments of weir import.
type importRequest struct {
	words    []string
	choice   clients.Select
	set      []string // answers to the questions of a bundle or a document
	registry string   // URL
}

// plan plans the import. A bundle or a document of the MCP Registry must be the only argument,
// because it may ask questions and have files of its own.
func (r importRequest) plan(a *process, ctx context.Context, m *setup.Machine) (*setup.Plan, error) {
	for _, word := range r.words {
		p, is, err := r.planAlone(a, ctx, m, word)
		switch {
		case is && len(r.words) > 1:
			return nil, failf(exitUsage, "%s must be the only argument: weir import %s", word, word)
		case is || err != nil:
			return p, asUsage(err)
		}
	}
	if len(r.set) > 0 {
		return nil, failf(exitUsage, "--set is for a bundle or a server.json")
	}
	var other []string
	words := slices.DeleteFunc(slices.Clone(r.words), func(word string) bool {
		if word != setup.DockerMCP && word != setup.ClaudeExtensions {
			return false
		}
		other = append(other, word)
		return true
	})
	var sources []setup.Source
	var err error
	if len(r.words) == 0 || len(words) > 0 {
		if sources, err = look(a, m, words); err != nil {
			return nil, err
		}
	}
	more, secrets, err := lookElsewhere(a, ctx, m, other, len(r.words) == 0)
	if err != nil {
		return nil, err
	}
	return m.Import("import", append(sources, more...), r.choice, secrets...)
}

// planAlone plans the import of a file that is a bundle or a document of the registry.
func (r importRequest) planAlone(a *process, ctx context.Context, m *setup.Machine, word string) (p *setup.Plan, is bool, err error) {
	request := addRequest{set: r.set, registry: r.registry}
	if isBundle(word) {
		p, err = addBundle(a, ctx, m, word, request)
		return p, true, err
	}
	server, ok, err := readDocument(word)
	if !ok || err != nil {
		return nil, false, err
	}
	p, err = addDocument(a, ctx, m, server, request)
	return p, true, err
}

// asUsage returns an error as one of how the command was used, unless it says more itself.
func asUsage(err error) error {
	if err == nil || errors.As(err, new(*failure)) {
		return err
	}
	return &failure{exitUsage, err}
}

// lookElsewhere reads the places that weir cannot take servers out of: the named ones, or all of
// this machine. A named place that is not there is an error.
func lookElsewhere(a *process, ctx context.Context, m *setup.Machine, words []string, all bool) (sources []setup.Source, secrets []clients.Secret, err error) {
	if all || slices.Contains(words, setup.ClaudeExtensions) {
		s, values, ok := m.Extensions(askExtension(a, ctx, !all))
		if !ok && !all {
			return nil, nil, failf(exitUsage, "Claude Desktop has no extensions on this machine")
		}
		if ok {
			sources, secrets = append(sources, s), values
		}
	}
	if all || slices.Contains(words, setup.DockerMCP) {
		s, ok := m.DockerServers()
		switch {
		case !all && !ok:
			return nil, nil, failf(exitUsage, "Docker's MCP toolkit has no %s on this machine", filepath.Base(s.File))
		case !all && s.Err != nil:
			return nil, nil, &failure{exitUsage, s.Err}
		case s.Err != nil:
			a.note("left out: %v", s.Err)
		case ok:
			sources = append(sources, s)
		}
	}
	return sources, secrets, nil
}

// askExtension returns how a person is asked for settings, or nil if there is no person to ask or
// the extensions were not named.
func askExtension(a *process, ctx context.Context, named bool) setup.Answerer {
	if _, person := newQuestions(a); !person || !named {
		return nil
	}
	return func(name string, questions []bundle.Question) (map[string][]string, error) {
		a.note("settings of %s", strings.TrimSpace(a.stderr.clean(name)))
		answers := map[string][]string{}
		return answers, askBundle(a, ctx, name, questions, answers)
	}
}
