package machine

import (
	"context"

	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// wiring changes the clients of the user who runs a gateway, as weir connect does. It implements
// api.Clients.
type wiring struct{ edits *edits }

// Found implements api.Clients.
func (w *wiring) Found(context.Context) ([]api.Client, error) {
	m, err := w.edits.Open()
	if err != nil {
		return nil, err
	}
	sources, err := m.Look()
	if err != nil {
		return nil, err
	}
	var out []api.Client
	for _, s := range sources {
		state, servers := s.State()
		c := api.Client{ID: s.Client.ID, Name: s.Client.Name, State: state, Servers: servers, File: s.File, Hearsay: s.Client.Proof == clients.Hearsay}
		if s.Err != nil {
			c.Error = text.Line(s.Err.Error(), 1000)
		}
		out = append(out, c)
	}
	return out, nil
}

// Plan implements api.Clients.
func (w *wiring) Plan(_ context.Context, given api.Wiring) (api.Wired, error) {
	m, err := w.edits.Open()
	if err != nil {
		return api.Wired{}, err
	}
	p, tag, err := planWiring(m, given)
	if err != nil {
		return api.Wired{}, err
	}
	return wiredOf(m, p, tag), nil
}

// Wire implements api.Clients.
func (w *wiring) Wire(ctx context.Context, tag string, given api.Wiring) (api.Wired, error) {
	w.edits.mu.Lock()
	defer w.edits.mu.Unlock()
	m, err := w.edits.Open()
	if err != nil {
		return api.Wired{}, err
	}
	p, now, err := planWiring(m, given)
	switch {
	case err != nil:
		return api.Wired{}, err
	case now != tag:
		return api.Wired{}, api.ErrChanged
	case p.Empty():
		return wiredOf(m, p, tag), nil
	}
	if p.Against, err = m.Digest(); err != nil {
		return api.Wired{}, err
	}
	next := w.edits.gateway.Operator.Reloads.Next()
	r, err := p.Apply(context.WithoutCancel(ctx), setup.Store)
	if err != nil && r.Record.N == 0 {
		return api.Wired{}, notEdited(err)
	}
	out := wiredOf(m, p, "")
	out.Operation = r.Record.N
	failed(&out.Edited, err)
	var names []string
	for _, s := range out.Adds {
		names = append(names, s.Name)
	}
	w.edits.await(ctx, m, &out.Edited, p.Against, next, names)
	return out, nil
}

// planWiring plans a change of clients. The tag is that of all files that the plan is made of.
func planWiring(m *setup.Machine, given api.Wiring) (p *setup.Plan, tag string, err error) {
	for _, id := range given.Clients {
		if _, ok := clients.ByID(id); !ok {
			return nil, "", mcp.Errorf(mcp.KindNotFound, "there is no client %q", text.Line(id, 80))
		}
	}
	if given.Do == api.WireConnect {
		if err := Lasting(m.How); err != nil {
			return nil, "", mcp.Errorf(mcp.KindInvalidParams, "%s", text.Line(err.Error(), 1000))
		}
	}
	all, err := m.Look(given.Clients...)
	if err != nil {
		return nil, "", notEdited(err)
	}
	if tag, err = m.DigestWith(all); err != nil {
		return nil, "", err
	}
	var good []setup.Source
	var unread []clients.Note
	for _, s := range all {
		switch {
		case s.Err == nil:
			good = append(good, s)
		case len(given.Clients) > 0:
			return nil, "", notEdited(s.Err)
		default:
			unread = append(unread, clients.Note{Client: s.Client.ID, Text: text.Line(s.Err.Error(), 1000)})
		}
	}
	if given.Do == api.WireDisconnect {
		p, err = m.Disconnect(good)
	} else {
		p, err = planConnection(m, given, good)
	}
	if err != nil {
		return nil, "", notEdited(err)
	}
	p.Notes = append(p.Notes, unread...)
	return p, tag, nil
}

// planConnection plans to import the servers of sources, and to connect the sources if that is wanted.
func planConnection(m *setup.Machine, given api.Wiring, sources []setup.Source) (*setup.Plan, error) {
	from := sources
	if given.Keep {
		from = nil
	}
	p, err := m.Import(given.Do, from, clients.Select{})
	if err != nil || given.Do != api.WireConnect {
		return p, err
	}
	return p, p.ConnectAll(sources, given.Keep)
}

// wiredOf tells a plan, without secrets.
func wiredOf(m *setup.Machine, p *setup.Plan, tag string) api.Wired {
	out := api.Wired{Edited: editedOf(m, p, tag), Files: []api.WiredFile{}, Advice: []string{}}
	told := map[string]bool{}
	for _, f := range p.Files {
		if f.Client == nil {
			continue
		}
		out.Files = append(out.Files, api.WiredFile{File: f.File, Client: f.Client.ID, New: f.New, Adds: list(f.Adds), Takes: list(f.Takes), Brings: list(f.Brings)})
		if f.Client.Reload != clients.Live && !told[f.Client.ID] {
			told[f.Client.ID] = true
			out.Advice = append(out.Advice, f.Client.Name+": "+f.Client.Reload.Advice())
		}
	}
	return out
}

// list returns names as JSON has them: without any, an empty list.
func list(names []string) []string { return append([]string{}, names...) }
