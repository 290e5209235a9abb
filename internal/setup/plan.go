package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// RemoveSecret is the step of an undo that removes a secret.
const RemoveSecret = "remove secret"

// Place is where the secrets of an import go.
type Place string

// The places of secrets.
const (
	Store  Place = "store"  // the store, as ${secret:NAME}
	Env    Place = "env"    // the environment, as ${env:NAME}: the person exports them
	Inline Place = "inline" // weir.yaml itself
)

// Plan is a change that can be shown before it is made. Apply makes it, once.
type Plan struct {
	Kind    string
	Summary string

	// Import are the servers that come into weir.yaml, and those that do not. It may be nil.
	Import *clients.Plan

	// Files are the changes of files in the order in which they are made.
	Files []File

	// Folder is the folder that the added server runs from. It is nil for most servers.
	Folder *Folder

	// Service installs the gateway's service once the files are changed; nil leaves it as it is.
	Service *ServiceChange

	// Notes are remarks for the person.
	Notes []clients.Note

	// Against is the digest of the weir.yaml that the plan is for; Apply fails with
	// journal.ErrChanged at another one. "" is for any.
	Against string

	m     *Machine
	names map[string]string // the names of secrets in the store, by their names in Import
}

// ServiceChange is a change of the gateway's service that is part of a plan.
type ServiceChange struct {
	Install func(context.Context) error
	Before  string // for [Service], on undo
}

// File is the change of one file.
type File struct {
	File   string
	Client *clients.Client // nil for weir's own file
	New    bool
	Adds   []string // names of entries
	Takes  []string
	Brings []string // entries that come back

	format splice.Format
	edits  []journal.Edit
}

// Empty reports whether the plan changes nothing.
func (p *Plan) Empty() bool { return len(p.Files) == 0 && !p.imports() && p.Service == nil }

// imports reports whether servers come into weir.yaml.
func (p *Plan) imports() bool { return p.Import != nil && len(p.Import.Servers) > 0 }

// Import plans to bring the servers of sources into weir.yaml. Their texts name the given secrets by
// their references; further ones are found in the texts.
func (m *Machine) Import(kind string, sources []Source, o clients.Select, secrets ...clients.Secret) (*Plan, error) {
	_, existing, err := m.own()
	if err != nil {
		return nil, err
	}
	o.How, o.Existing = m.How, existing
	p := &Plan{Kind: kind, m: m}
	var servers []clients.Server
	for _, s := range sources {
		servers, p.Notes = append(servers, s.Servers...), append(p.Notes, s.Notes...)
	}
	p.Import = clients.Make(servers, o, m.Env)
	p.Notes = append(p.Notes, p.Import.Notes...)
	for _, secret := range secrets {
		if p.refersTo(secret) {
			p.Import.Secrets = append(p.Import.Secrets, secret)
		}
	}
	p.Summary = counted(len(p.Import.Servers), "server") + " into weir"
	return p, p.nameSecrets()
}

// refersTo reports whether a server that comes into weir.yaml names a secret. Those that are there
// already do not count.
func (p *Plan) refersTo(secret clients.Secret) bool {
	reference := secret.Reference()
	return slices.ContainsFunc(p.Import.Servers, func(planned clients.Planned) bool {
		s := planned.Server
		texts := slices.Concat([]string{s.Command, s.URL}, s.Args, slices.Collect(maps.Values(s.Env)), slices.Collect(maps.Values(s.Headers)))
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, reference) })
	})
}

// ownSecrets starts the names of secrets that weir keeps for itself, such as the key of all
// sign-ins.
const ownSecrets = "WEIR_"

// nameSecrets finds a name in the store for each secret: its own, unless that has another value or is one
// of weir's. Names come from bundles, registries and files of others.
func (p *Plan) nameSecrets() error {
	p.names = map[string]string{}
	taken := map[string]bool{}
	for _, s := range p.Import.Secrets {
		base := s.Name
		if base[0] >= '0' && base[0] <= '9' {
			base = "S_" + base
		}
		if strings.HasPrefix(strings.ToUpper(base), ownSecrets) {
			base = "SERVER_" + base
		}
		name := base
		for n := 2; ; n++ {
			value, ok, err := "", false, error(nil)
			if p.m.Secrets != nil {
				value, ok, err = p.m.Secrets.Lookup(name)
			}
			if err != nil {
				return err
			}
			if !taken[name] && (!ok || value == s.Value) {
				break
			}
			name = base + "_" + strconv.Itoa(n)
		}
		taken[name], p.names[s.Name] = true, name
	}
	return nil
}

// SecretName returns the name under which the store has a secret of the plan.
func (p *Plan) SecretName(s clients.Secret) string { return p.names[s.Name] }

// Drop takes servers out of the plan by their names in weir.yaml: they stay in their clients. It must
// be called before Connect.
func (p *Plan) Drop(names ...string) {
	p.Import.Servers = slices.DeleteFunc(p.Import.Servers, func(s clients.Planned) bool { return slices.Contains(names, s.Name) })
	p.Import.Secrets = slices.DeleteFunc(p.Import.Secrets, func(secret clients.Secret) bool {
		return !slices.ContainsFunc(p.Import.Servers, func(s clients.Planned) bool {
			return slices.ContainsFunc(secret.Where, func(where string) bool { return strings.HasPrefix(where, s.Name+".") })
		})
	})
	p.Summary = counted(len(p.Import.Servers), "server") + " into weir"
}

// ConnectAll plans weir's entry in the files of sources, and sums the plan up. A file from which
// the plan takes servers loses them, unless keep is set.
func (p *Plan) ConnectAll(sources []Source, keep bool) error {
	for _, s := range sources {
		if err := p.connect(s, keep); err != nil {
			return err
		}
	}
	p.Summarize()
	return nil
}

// connect plans weir's entry in a source's file, and takes the servers out that the plan moves. With
// keep it only adds. It changes nothing in a file that is as it should be.
func (p *Plan) connect(s Source, keep bool) error {
	if s.Err != nil || s.Elsewhere {
		return s.Err
	}
	if p.Widens(s.Client) {
		return nil
	}
	var moved []clients.Server
	if !keep && p.Import != nil {
		for _, server := range p.Import.Moved(s.Client.ID) {
			if slices.ContainsFunc(s.Servers, func(own clients.Server) bool { return reflect.DeepEqual(own, server) }) {
				moved = append(moved, server)
			}
		}
	}
	var edits []clients.Edit
	if s.Target {
		var err error
		if edits, err = s.Client.Connect(s.doc, p.m.How, moved, p.m.Env); err != nil {
			return err
		}
	} else {
		for _, server := range moved {
			edits = append(edits, clients.Edit{Path: server.Path, Server: server.Name})
		}
	}
	f := File{File: s.File, Client: s.Client, New: !s.Exists, format: s.Client.Format}
	for _, e := range edits {
		if e.Value != nil {
			f.Adds = append(f.Adds, e.Server)
			f.edits = append(f.edits, journal.Edit{Path: e.Path, Value: e.Value})
		} else {
			f.Takes = append(f.Takes, e.Server)
			f.edits = append(f.edits, journal.Edit{Path: e.Path, Remove: true})
		}
	}
	if len(f.edits) > 0 {
		p.Files = append(p.Files, f)
	}
	return nil
}

// Widens reports whether weir would let a client reach tools that its own entries keep from it. Then
// ConnectAll leaves its file, unless a profile was chosen.
func (p *Plan) Widens(c *clients.Client) bool {
	return p.Import != nil && p.m.How.Profile == nil &&
		slices.ContainsFunc(p.Import.Narrower, func(own clients.Server) bool { return own.Client == c.ID })
}

// Result is the result of Apply.
type Result struct {
	Record  journal.Record
	Secrets []Stored
	Exports []clients.Secret // the variables that the person has to set, for Env
}

// Stored is a secret that was kept.
type Stored struct{ Name, Where string }

// Apply makes the folder and keeps the secrets, then changes weir.yaml and the other files as one
// operation. If that fails and the files are as they were, the folder goes and the secrets are
// forgotten again. Otherwise they stay, and the Result has the number of the operation: the files may
// need them.
func (p *Plan) Apply(ctx context.Context, where Place) (Result, error) {
	if err := p.Unpack(); err != nil {
		return Result{}, err
	}
	r, err := p.apply(ctx, where)
	switch {
	case err != nil && r.Record.N == 0:
		err = errors.Join(err, p.Discard())
	case err != nil:
		err = fmt.Errorf("%w; files have changed: weir undo %d takes the changes back", err, r.Record.N)
	}
	return r, err
}

// apply makes the changes of a plan whose folder is there.
func (p *Plan) apply(ctx context.Context, where Place) (Result, error) {
	var r Result
	var err error
	op := p.m.Journal.Begin(p.Kind, p.Summary)
	if own := p.ownEdits(where); len(own) > 0 {
		if _, err := op.Edit(p.m.Config, p.m.format(), own); err != nil {
			return r, err
		}
	}
	for _, f := range p.Files {
		if _, err := op.Edit(f.File, f.format, f.edits); err != nil {
			return r, err
		}
	}
	for _, c := range op.Changes() {
		if c.File == p.m.Config && p.Against != "" && p.Against != digest(c.Before) {
			return r, fmt.Errorf("%s: %w", c.File, journal.ErrChanged)
		}
	}
	if err := p.noteFolder(op); err != nil {
		return r, err
	}
	if p.Service != nil {
		op.OnUndo(RestoreService, p.Service.Before)
	}
	if p.Import != nil && where == Env {
		r.Exports = p.Import.Secrets
	}
	if p.Import != nil && where == Store {
		if r.Secrets, err = p.keep(op); err != nil {
			return r, err
		}
	}
	if r.Record, err = op.Apply(ctx); err != nil {
		if r.Record.N == 0 {
			err = errors.Join(err, p.drop(r.Secrets))
		}
		return r, err
	}
	if p.Service == nil {
		return r, nil
	}
	if err := p.Service.Install(ctx); err != nil {
		u, undone := p.m.Undo(context.WithoutCancel(ctx), r.Record.N)
		if u == nil || u.By == 0 {
			return r, errors.Join(fmt.Errorf("the service cannot be installed: %w", err), undone)
		}
		return Result{}, errors.Join(fmt.Errorf("the service cannot be installed, and nothing has changed: %w", err), undone)
	}
	return r, nil
}

// keep stores the secrets of the plan, with a step for the undo of each.
func (p *Plan) keep(op *journal.Operation) (stored []Stored, err error) {
	for _, s := range p.Import.Secrets {
		name := p.SecretName(s)
		if _, known, err := p.m.Secrets.Lookup(name); err == nil && known {
			ours, err := p.m.keeps(name)
			if err != nil {
				return nil, errors.Join(err, p.drop(stored))
			}
			if ours {
				op.OnUndo(RemoveSecret, name) // The last undo of those that share it removes it.
			}
			continue
		}
		place, err := p.m.Secrets.Set(name, s.Value)
		if err != nil {
			return nil, errors.Join(err, p.drop(stored))
		}
		op.OnUndo(RemoveSecret, name)
		stored = append(stored, Stored{name, place})
	}
	return stored, nil
}

// drop removes the secrets that keep stored.
func (p *Plan) drop(stored []Stored) (err error) {
	for _, s := range stored {
		err = errors.Join(err, p.m.Secrets.Remove(s.Name))
	}
	return err
}

// ownEdits returns the edits of weir.yaml.
func (p *Plan) ownEdits(where Place) []journal.Edit {
	if !p.imports() {
		return nil
	}
	return entriesOf(p.Import, func(s clients.Secret) string { return p.reference(s, where) })
}

// reference is how weir.yaml writes a secret.
func (p *Plan) reference(s clients.Secret, where Place) string {
	switch where {
	case Inline:
		return s.Inline()
	case Env:
		return "${env:" + p.SecretName(s) + "}"
	}
	return "${secret:" + p.SecretName(s) + "}"
}

// entriesOf returns the edits that put planned servers into weir.yaml.
func entriesOf(p *clients.Plan, reference func(clients.Secret) string) []journal.Edit {
	var edits []journal.Edit
	for _, s := range p.ToWeir(reference) {
		edits = append(edits, journal.Edit{Path: splice.Path{"mcpServers", s.Key}, Value: s.Value})
	}
	return edits
}

// Preview returns weir.yaml as it will be, with the secrets in it, so that the servers can be tried.
// It must not be written.
func (p *Plan) Preview() ([]byte, error) {
	doc, _, err := p.m.own()
	if err != nil || !p.imports() {
		return doc, err
	}
	for _, e := range entriesOf(p.Import, clients.Secret.Inline) {
		if doc, err = splice.Set(doc, p.m.format(), e.Path, e.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", p.m.Config, err)
		}
	}
	return doc, nil
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Summarize makes the line that the journal has for the plan.
func (p *Plan) Summarize() {
	var parts []string
	if p.imports() {
		parts = append(parts, counted(len(p.Import.Servers), "server")+" into weir")
	}
	var ids []string
	for _, f := range p.Files {
		if f.Client != nil && !slices.Contains(ids, f.Client.ID) {
			ids = append(ids, f.Client.ID)
		}
	}
	if len(ids) > 0 {
		parts = append(parts, "weir into "+strings.Join(ids, ", "))
	}
	if p.Service != nil {
		parts = append(parts, "the service")
	}
	p.Summary = strings.Join(parts, ", ")
}
