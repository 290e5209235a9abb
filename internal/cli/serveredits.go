package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/api"
	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/app/web"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/firstrun"
	"github.com/weir-mcp/weir/internal/journal"
	"github.com/weir-mcp/weir/internal/splice"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// editWait bounds the wait for changed servers.
const editWait = 60 * time.Second

// serverEdits changes the configuration of a running gateway as weir add does. It implements
// api.Edits.
type serverEdits struct {
	open   func() (*firstrun.Machine, error)
	engine *app.Engine
	opts   config.Options

	mu sync.Mutex // held by a change
}

func newServerEdits(a *process, e *app.Engine, path string, opts config.Options) *serverEdits {
	return &serverEdits{open: func() (*firstrun.Machine, error) { return a.machine(path) }, engine: e, opts: opts}
}

// Entry implements api.Edits.
func (s *serverEdits) Entry(name string) (api.Entry, error) {
	m, err := s.open()
	if err != nil {
		return api.Entry{}, err
	}
	tag, err := m.Digest()
	if err != nil {
		return api.Entry{}, err
	}
	entry, err := m.Entry(name)
	if err != nil {
		return api.Entry{}, notEdited(err)
	}
	raw, err := objectJSON(entry)
	return api.Entry{Name: name, File: m.Config, Tag: tag, Entry: raw}, err
}

// Plan implements api.Edits.
func (s *serverEdits) Plan(given api.Addition) (api.Edited, error) {
	m, err := s.open()
	if err != nil {
		return api.Edited{}, err
	}
	tag, err := m.Digest()
	if err != nil {
		return api.Edited{}, err
	}
	p, err := m.Paste(given.Text, given.Name)
	if err != nil {
		return api.Edited{}, notEdited(err)
	}
	return editedOf(m, p, tag), nil
}

// Add implements api.Edits.
func (s *serverEdits) Add(ctx context.Context, tag string, given api.Addition) (api.Edited, error) {
	return s.change(ctx, tag, func(m *firstrun.Machine) (*firstrun.Plan, []string, error) {
		p, err := m.Paste(given.Text, given.Name)
		if err != nil {
			return nil, nil, err
		}
		var names []string
		for _, planned := range p.Import.Servers {
			names = append(names, planned.Name)
		}
		return p, names, nil
	})
}

// Amend implements api.Edits.
func (s *serverEdits) Amend(ctx context.Context, tag, name string, change json.RawMessage) (api.Edited, error) {
	v, err := splice.Decode(change, splice.JSON)
	patch, ok := v.(splice.Object)
	if err != nil || !ok {
		return api.Edited{}, mcp.Errorf(mcp.KindInvalidParams, "the change must be a JSON object")
	}
	return s.change(ctx, tag, func(m *firstrun.Machine) (*firstrun.Plan, []string, error) {
		p, err := m.Amend(name, patch)
		return p, []string{name}, err
	})
}

// Remove implements api.Edits.
func (s *serverEdits) Remove(ctx context.Context, tag, name string) (api.Edited, error) {
	return s.change(ctx, tag, func(m *firstrun.Machine) (*firstrun.Plan, []string, error) {
		p, err := m.Remove(name)
		return p, []string{name}, err
	})
}

// change applies a plan to the file with a tag, and waits for the named servers. Once it has begun, it
// does not end with the request.
func (s *serverEdits) change(ctx context.Context, tag string, plan func(m *firstrun.Machine) (*firstrun.Plan, []string, error)) (api.Edited, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.open()
	if err != nil {
		return api.Edited{}, err
	}
	if now, err := m.Digest(); err != nil || now != tag {
		return api.Edited{}, errors.Join(err, api.ErrChanged)
	}
	p, names, err := plan(m)
	if err != nil {
		return api.Edited{}, notEdited(err)
	}
	if p.Empty() {
		return editedOf(m, p, tag), nil
	}
	p.Against = tag
	next := s.engine.Reloads.Next()
	r, err := p.Apply(context.WithoutCancel(ctx), firstrun.Store)
	if err != nil {
		return api.Edited{}, notEdited(err)
	}
	doc, err := os.ReadFile(m.Config)
	if err != nil {
		return api.Edited{}, err
	}
	if tag, err = m.Digest(); err != nil {
		return api.Edited{}, err
	}
	out := editedOf(m, p, tag)
	out.Operation = r.Record.N
	waiting, cancel := context.WithTimeout(ctx, editWait)
	defer cancel()
	states, err := s.engine.Operator.Edited(waiting, next, s.opts.Sum(doc), names)
	if err != nil {
		out.Problem = text.Line(err.Error(), 1000)
	}
	for _, u := range states {
		out.Servers = append(out.Servers, web.ServerOf(u))
	}
	return out, nil
}

// notEdited is an error of a plan as the API tells it.
func notEdited(err error) error {
	switch {
	case errors.Is(err, journal.ErrChanged):
		return api.ErrChanged
	case errors.Is(err, firstrun.ErrNoServer):
		return mcp.Errorf(mcp.KindNotFound, "%s", text.Line(err.Error(), 1000))
	}
	return mcp.Errorf(mcp.KindInvalidParams, "%s", text.Line(err.Error(), 1000))
}

// editedOf tells a plan, without secrets.
func editedOf(m *firstrun.Machine, p *firstrun.Plan, tag string) api.Edited {
	out := api.Edited{File: m.Config, Tag: tag, Adds: []api.PlannedServer{}, Stay: []api.PlannedServer{}, Secrets: []string{}, Notes: []string{}, Servers: []api.Server{}}
	if p.Import != nil {
		for _, s := range p.Import.Servers {
			out.Adds = append(out.Adds, api.PlannedServer{Name: s.Name, Starts: starts(s.Server)})
		}
		for _, s := range p.Import.Known {
			out.Stay = append(out.Stay, api.PlannedServer{Name: s.Name, Why: "it is in the configuration already"})
		}
		for _, s := range p.Import.Stay {
			out.Stay = append(out.Stay, api.PlannedServer{Name: s.Name, Why: s.Stay})
		}
		for _, s := range p.Import.Secrets {
			out.Secrets = append(out.Secrets, p.SecretName(s))
		}
	}
	for _, n := range p.Notes {
		out.Notes = append(out.Notes, strings.TrimPrefix(n.Server+": "+n.Text, ": "))
	}
	return out
}

// objectJSON writes a value of a document as JSON, with its members in their order.
func objectJSON(v any) ([]byte, error) {
	switch v := v.(type) {
	case splice.Object:
		var b bytes.Buffer
		for i, m := range v {
			key, err := json.Marshal(m.Key)
			if err != nil {
				return nil, err
			}
			value, err := objectJSON(m.Value)
			if err != nil {
				return nil, err
			}
			b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
			b.Write(key)
			b.WriteByte(':')
			b.Write(value)
		}
		if len(v) == 0 {
			return []byte("{}"), nil
		}
		b.WriteByte('}')
		return b.Bytes(), nil
	case []any:
		items := make([]json.RawMessage, len(v))
		for i, one := range v {
			raw, err := objectJSON(one)
			if err != nil {
				return nil, err
			}
			items[i] = raw
		}
		return json.Marshal(items)
	}
	return json.Marshal(v)
}
