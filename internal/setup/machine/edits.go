package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
	"github.com/weir-mcp/weir/internal/setup/mcpregistry"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// editWait bounds the wait for changed servers.
const editWait = 60 * time.Second

// edits changes the configuration of a running gateway as weir add does. It implements api.Edits.
type edits struct {
	Options
	gateway  *gateway.Gateway
	registry *registry

	mu sync.Mutex // held by a change
}

// Entry implements api.Edits.
func (s *edits) Entry(name string) (api.Entry, error) {
	m, err := s.Open()
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
func (s *edits) Plan(ctx context.Context, given api.Addition) (api.Edited, error) {
	m, err := s.Open()
	if err != nil {
		return api.Edited{}, err
	}
	tag, err := m.Digest()
	if err != nil {
		return api.Edited{}, err
	}
	p, asked, published, err := s.plan(ctx, m, given)
	if err != nil {
		return api.Edited{}, notEdited(err)
	}
	out := editedOf(m, p, tag+published)
	out.Questions = asked
	return out, nil
}

// plan plans an addition. What a server of the registry asks comes with the plan, which adds nothing
// if a needed answer is missing. published is what the tag of the plan has in addition to that of the
// file: it begins with a dot and names what the registry answered, or is "".
func (s *edits) plan(ctx context.Context, m *setup.Machine, given api.Addition) (p *setup.Plan, asked []api.Question, published string, err error) {
	if given.Published != "" {
		return s.registry.plan(ctx, m, given)
	}
	p, err = m.Paste(given.Text, given.Name)
	return p, nil, "", err
}

// Add implements api.Edits.
func (s *edits) Add(ctx context.Context, tag string, given api.Addition) (api.Edited, error) {
	file, shown, _ := strings.Cut(tag, ".")
	return s.change(ctx, file, func(m *setup.Machine) (*setup.Plan, []string, error) {
		p, _, published, err := s.plan(ctx, m, given)
		if err != nil {
			return nil, nil, err
		}
		if strings.TrimPrefix(published, ".") != shown {
			return nil, nil, api.ErrPublished
		}
		var names []string
		for _, planned := range p.Import.Servers {
			names = append(names, planned.Name)
		}
		return p, names, nil
	})
}

// Amend implements api.Edits.
func (s *edits) Amend(ctx context.Context, tag, name string, change json.RawMessage) (api.Edited, error) {
	v, err := splice.Decode(change, splice.JSON)
	patch, ok := v.(splice.Object)
	if err != nil || !ok {
		return api.Edited{}, mcp.Errorf(mcp.KindInvalidParams, "the change must be a JSON object")
	}
	return s.change(ctx, tag, func(m *setup.Machine) (*setup.Plan, []string, error) {
		p, err := m.Amend(name, patch)
		return p, []string{name}, err
	})
}

// Remove implements api.Edits.
func (s *edits) Remove(ctx context.Context, tag, name string) (api.Edited, error) {
	return s.change(ctx, tag, func(m *setup.Machine) (*setup.Plan, []string, error) {
		p, err := m.Remove(name)
		return p, []string{name}, err
	})
}

// change applies a plan to the file with a tag, and waits for the named servers. Once it has begun, it
// does not end with the request.
func (s *edits) change(ctx context.Context, tag string, plan func(m *setup.Machine) (*setup.Plan, []string, error)) (api.Edited, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.Open()
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
	m.Journal = m.Journal.AtOnce() // the gateway follows the file
	next := s.gateway.Operator.Reloads.Next()
	r, err := p.Apply(context.WithoutCancel(ctx), setup.Store)
	if err != nil && r.Record.N == 0 {
		return api.Edited{}, notEdited(err)
	}
	out := editedOf(m, p, tag)
	out.Operation = r.Record.N
	failed(&out, err)
	s.await(ctx, m, &out, tag, next, names)
	return out, nil
}

// failed notes what failed after a change was made, if err is not nil.
func failed(out *api.Edited, err error) {
	if err != nil {
		out.Failed = text.Line(strings.TrimPrefix(out.Failed+"; "+err.Error(), "; "), 1000)
	}
}

// await waits until the gateway uses the changed file, and completes what an edit tells. was is the tag
// of the file before: the gateway does not read a file again that is as it was.
func (s *edits) await(ctx context.Context, m *setup.Machine, out *api.Edited, was string, next <-chan struct{}, names []string) {
	doc, err := place.ReadFile(m.Config)
	if err == nil {
		out.Tag, err = m.Digest()
	}
	if err != nil || out.Tag == was {
		failed(out, err)
		return
	}
	if s.Changed != nil {
		s.Changed()
	}
	waiting, cancel := context.WithTimeout(ctx, editWait)
	defer cancel()
	states, err := s.gateway.Operator.Edited(waiting, next, s.Read.Sum(doc), names)
	if err != nil {
		out.Problem = text.Line(err.Error(), 1000)
	}
	for _, u := range states {
		out.Servers = append(out.Servers, web.ServerOf(u))
	}
}

// Undo implements api.Edits.
func (s *edits) Undo(ctx context.Context, n int, own bool) (api.Edited, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.Open()
	if err != nil {
		return api.Edited{}, err
	}
	before, err := m.Servers()
	if err != nil {
		return api.Edited{}, err
	}
	tag, err := m.Digest()
	if err != nil {
		return api.Edited{}, err
	}
	others, err := undoable(m, n, own)
	if err != nil {
		return api.Edited{}, err
	}
	if !others {
		m.Journal = m.Journal.AtOnce()
	}
	next := s.gateway.Operator.Reloads.Next()
	u, err := m.Undo(context.WithoutCancel(ctx), n)
	if u == nil || u.By == 0 {
		return api.Edited{}, notEdited(err)
	}
	out := editedOf(m, &setup.Plan{}, "")
	out.Operation = u.By
	failed(&out, err)
	after, err := m.Servers()
	failed(&out, err)
	for _, step := range u.Steps {
		if step.Do == setup.RemoveSecret {
			out.Operation = 0 // The way back needs the secret.
			out.Notes = append(out.Notes, "the secret "+step.Name+" is removed; to take operation "+strconv.Itoa(u.By)+" back, store it again: weir secret set "+step.Name)
		}
	}
	for _, f := range u.Files {
		for _, path := range f.Kept {
			out.Notes = append(out.Notes, f.File+": "+path.String()+" is another entry by now, and stays")
		}
		for _, path := range f.Taken {
			out.Notes = append(out.Notes, f.File+": "+path.String()+" did not come back, because the name is taken by now")
		}
	}
	s.await(ctx, m, &out, tag, next, different(before, after))
	return out, nil
}

// different returns the names of the servers that two readings of a file do not have in common.
func different(before, after []clients.Server) (names []string) {
	lacks := func(all []clients.Server, one clients.Server) bool {
		return !slices.ContainsFunc(all, func(s clients.Server) bool { return reflect.DeepEqual(s, one) })
	}
	for _, s := range after {
		if lacks(before, s) {
			names = append(names, s.Name)
		}
	}
	for _, s := range before {
		if lacks(after, s) && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// undoable checks that a gateway may take back an operation. It reports whether the operation changed
// other files than the configuration.
func undoable(m *setup.Machine, n int, own bool) (others bool, err error) {
	all, err := m.Journal.List()
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(all, func(r journal.Record) bool { return r.N == n })
	if at < 0 {
		return false, mcp.Errorf(mcp.KindNotFound, "there is no operation %d; weir undo --list shows them", n)
	}
	if slices.ContainsFunc(all[at].Steps, func(s journal.Step) bool { return s.Do == setup.RestoreService }) {
		return false, mcp.Errorf(mcp.KindInvalidParams, "operation %d installed the service, which may run this gateway: weir undo %d takes it back, in a shell", n, n)
	}
	config := m.Config
	if real, err := filepath.EvalSymlinks(config); err == nil {
		config = real
	}
	for _, f := range all[at].Files {
		others = others || f.File != config
	}
	if others && !own {
		return false, mcp.Errorf(mcp.KindPermissionDenied, "operation %d changed other files than the configuration: the user who runs the gateway takes it back, in the console that weir open opens or with weir undo %d", n, n)
	}
	return others, nil
}

// notEdited is an error of a plan as the API tells it.
func notEdited(err error) error {
	switch {
	case errors.Is(err, journal.ErrChanged):
		return api.ErrChanged
	case errors.Is(err, api.ErrPublished):
		return err
	case errors.Is(err, setup.ErrNoServer), errors.Is(err, journal.ErrNothing), errors.Is(err, mcpregistry.ErrMissing):
		return mcp.Errorf(mcp.KindNotFound, "%s", text.Line(err.Error(), 1000))
	}
	return mcp.Errorf(mcp.KindInvalidParams, "%s", text.Line(err.Error(), 1000))
}

// editedOf tells a plan, without secrets.
func editedOf(m *setup.Machine, p *setup.Plan, tag string) api.Edited {
	out := api.Edited{File: m.Config, Tag: tag, Adds: []api.PlannedServer{}, Stay: []api.PlannedServer{}, Secrets: []string{}, Notes: []string{}, Servers: []api.Server{}}
	if p.Import != nil {
		for _, s := range p.Import.Servers {
			out.Adds = append(out.Adds, api.PlannedServer{Name: s.Name, Starts: s.Server.Starts()})
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
