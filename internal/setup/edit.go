package setup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// Errors of changes to one server. errTaken is for a name, or a server, that is there already.
var (
	errTaken    = errors.New("the name is taken")
	ErrNoServer = errors.New("no such server")
	// ErrNoAccount is for a person without an account.
	ErrNoAccount = errors.New("no such account")
	// ErrLastAccount is for an account that is needed.
	ErrLastAccount = errors.New("the last account")
)

// Add plans a new server in weir.yaml. Its texts name the given secrets by their references; further
// ones are found in the texts.
func (m *Machine) Add(s clients.Server, secrets ...clients.Secret) (*Plan, error) {
	_, existing, err := m.own()
	if err != nil {
		return nil, err
	}
	if s.Command != "" {
		s.Sandbox = m.Sandbox
	} else if m.Sandbox != "" {
		return nil, fmt.Errorf("a sandbox is for a program that weir starts, and %q is at a URL", s.Name)
	}
	for _, have := range existing {
		if strings.EqualFold(have.Name, s.Name) {
			return nil, fmt.Errorf("%s has a server %q: %w. Choose another one, or remove that first: weir remove %s", m.Config, have.Name, errTaken, have.Name)
		}
	}
	p, err := m.Import("add", []Source{{Servers: []clients.Server{s}}}, clients.Select{All: true})
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.Import.Known) > 0:
		return nil, fmt.Errorf("%s has this server already, as %q: %w", m.Config, p.Import.Known[0].Name, errTaken)
	case len(p.Import.Stay) > 0:
		return nil, fmt.Errorf("weir cannot run %q: %s", s.Name, p.Import.Stay[0].Stay)
	case len(p.Import.Servers) == 0:
		return nil, fmt.Errorf("%q is weir itself", s.Name)
	case p.Import.Servers[0].Name != s.Name:
		return nil, fmt.Errorf("%q is no name that weir accepts for a server, or too close to another; %q would be one", s.Name, p.Import.Servers[0].Name)
	}
	p.Summary = s.Name
	p.Import.Secrets = append(p.Import.Secrets, secrets...)
	return p, p.nameSecrets()
}

// Remove plans to take servers out of weir.yaml.
func (m *Machine) Remove(names ...string) (*Plan, error) {
	return m.change("remove", names, func(clients.Server, bool) []journal.Edit { return nil })
}

// Switch plans to switch servers of weir.yaml on or off.
func (m *Machine) Switch(on bool, names ...string) (*Plan, error) {
	kind := "disable"
	if on {
		kind = "enable"
	}
	return m.change(kind, names, func(s clients.Server, has bool) []journal.Edit {
		path := append(slices.Clone(s.Path), "disabled")
		switch {
		case s.Disabled != on:
			return []journal.Edit{}
		case on && has:
			return []journal.Edit{{Path: path, Remove: true}}
		}
		return []journal.Edit{{Path: path, Value: true}}
	})
}

// change plans one change of some servers. edit returns the edits of a server; nil removes it.
func (m *Machine) change(kind string, names []string, edit func(s clients.Server, has bool) []journal.Edit) (*Plan, error) {
	doc, existing, err := m.own()
	if err != nil {
		return nil, err
	}
	p := &Plan{Kind: kind, m: m, Summary: strings.Join(names, ", ")}
	f := File{File: m.Config, format: m.format()}
	for _, name := range names {
		at := slices.IndexFunc(existing, func(s clients.Server) bool { return s.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("%s: %w: %q; it has: %s", m.Config, ErrNoServer, name, strings.Join(namesOf(existing), ", "))
		}
		s := existing[at]
		_, has, err := splice.Lookup(doc, f.format, append(slices.Clone(s.Path), "disabled"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Config, err)
		}
		edits := edit(s, has)
		switch {
		case edits == nil:
			f.Takes = append(f.Takes, name)
			edits = []journal.Edit{{Path: s.Path, Remove: true}}
		case len(edits) == 0:
			p.Notes = append(p.Notes, clients.Note{Server: name, Text: "it is " + kind + "d already"})
		case kind == "enable":
			f.Brings = append(f.Brings, name)
		default:
			f.Takes = append(f.Takes, name)
		}
		f.edits = append(f.edits, edits...)
	}
	if len(f.edits) > 0 {
		p.Files = []File{f}
	}
	return p, nil
}

// Servers returns the servers of weir.yaml.
func (m *Machine) Servers() ([]clients.Server, error) {
	_, servers, err := m.own()
	return servers, err
}

func namesOf(servers []clients.Server) (names []string) {
	for _, s := range servers {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return []string{"none"}
	}
	return names
}
