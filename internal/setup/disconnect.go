package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// Disconnect plans to take weir out of the sources' files and to put the servers back that weir
// took out of them. Entries whose name is taken by now stay out, which a note says.
func (m *Machine) Disconnect(sources []Source) (*Plan, error) {
	records, err := m.Journal.List()
	if err != nil {
		return nil, err
	}
	p := &Plan{Kind: "disconnect", m: m}
	for _, s := range sources {
		if s.Err != nil {
			return nil, s.Err
		}
		f := File{File: s.File, Client: s.Client, format: s.Client.Format}
		doc := s.doc
		cuts, made := history(records, s.File)
		for _, cut := range cuts {
			next, err := splice.Restore(doc, f.format, cut)
			name := nameOf(cut.Path)
			switch {
			case errors.Is(err, splice.ErrTaken):
				p.Notes = append(p.Notes, clients.Note{Client: s.Client.ID, Server: name, Text: "it does not come back: the name is taken"})
				continue
			case err != nil:
				return nil, fmt.Errorf("%s: %w", s.File, err)
			}
			doc = next
			f.Brings = append(f.Brings, name)
			f.edits = append(f.edits, journal.Edit{Path: cut.Path, Restore: &cut})
		}
		ours, err := s.Client.Disconnect(doc, m.How, m.Env)
		if err != nil {
			return nil, err
		}
		for _, e := range ours {
			f.Takes = append(f.Takes, e.Server)
			f.edits = append(f.edits, journal.Edit{Path: e.Path, Remove: true})
			if doc, _, err = splice.Remove(doc, f.format, e.Path); err != nil {
				return nil, fmt.Errorf("%s: %w", s.File, err)
			}
		}
		if len(ours) == 0 {
			continue // weir is not in it, so nothing is missing that weir took
		}
		if f.edits, err = emptyParents(doc, f, made); err != nil {
			return nil, fmt.Errorf("%s: %w", s.File, err)
		}
		slices.Reverse(f.Brings)
		p.Files = append(p.Files, f)
		p.Summary = join(p.Summary, s.Client.ID)
	}
	p.Summary = "weir out of " + p.Summary
	return p, nil
}

// history returns the cuts of weir in a file since it was last disconnected, the latest first, and
// the parents that weir made for its entry.
func history(records []journal.Record, file string) (cuts []splice.Cut, made []splice.Path) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	for _, r := range slices.Backward(records) {
		if r.UndoneBy != 0 || r.Kind == "undo" {
			continue
		}
		for _, f := range r.Files {
			if f.File != file {
				continue
			}
			if r.Kind == "disconnect" {
				return cuts, made
			}
			for _, e := range slices.Backward(f.Edits) {
				if e.Cut != nil && !e.Set {
					cuts = append(cuts, *e.Cut)
				}
				for n := range e.Made {
					made = append(made, e.Path[:len(e.Path)-1-n])
				}
			}
		}
	}
	return cuts, made
}

// emptyParents adds the removal of parents that weir made, if nothing is in them.
func emptyParents(doc []byte, f File, made []splice.Path) ([]journal.Edit, error) {
	for _, path := range made {
		v, ok, err := splice.Lookup(doc, f.format, path)
		if err != nil {
			return nil, err
		}
		o, isObject := v.(splice.Object)
		l, isList := v.([]any)
		if !ok || !isObject && !isList || len(o)+len(l) > 0 {
			continue
		}
		if doc, _, err = splice.Remove(doc, f.format, path); err != nil {
			return nil, err
		}
		f.edits = append(f.edits, journal.Edit{Path: path, Remove: true})
	}
	return f.edits, nil
}

// nameOf is the name of the entry at a path.
func nameOf(path splice.Path) string {
	name := path[len(path)-1]
	if len(name) > 5 && name[:5] == "name=" {
		return name[5:]
	}
	return name
}

// join appends a word to a list of words.
func join(list, word string) string {
	if list == "" {
		return word
	}
	return list + ", " + word
}

// RestoreService is the step of an undo that makes the service as it was. Its name is for
// [Service].
const RestoreService = "restore the service"

// Undo takes back an operation by its number, 0 for the last one, and removes the secrets that it
// kept, and the folder that it made. The service is as before. If the files could not be changed,
// these stay. A secret that weir.yaml still names stays as well, and its step is not in the result.
func (m *Machine) Undo(ctx context.Context, n int) (*journal.Undone, error) {
	if err := m.restorable(n); err != nil {
		return nil, err
	}
	u, err := m.Journal.Undo(ctx, n)
	if u == nil || u.By == 0 {
		return u, err
	}
	var done []journal.Step
	for _, step := range u.Steps {
		switch {
		case step.Do == RemoveSecret && m.Secrets != nil:
			removed, failed := m.forget(step.Name)
			err = errors.Join(err, failed)
			if !removed {
				continue
			}
		case step.Do == removeFolder:
			err = errors.Join(err, m.dropFolder(u.Record, step.Name))
		case step.Do == RestoreService && m.Service != nil:
			err = errors.Join(err, m.Service.Restore(ctx, step.Name))
		}
		done = append(done, step)
	}
	u.Steps = done
	return u, err
}
