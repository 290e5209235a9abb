package web

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/web/api"
)

// mountAPI serves the paths of viewers and operators. The API decides who is an operator; the guards
// check Host and Origin, and the tokens of the configuration. The
// returned function ends the streams. Clients connect again to the current routes, which use the
// current tokens.
func (f *Server) mountAPI(mux *http.ServeMux, open, closed *guard.Guard, c *config.Config, auth config.Auth) (end func()) {
	view := &viewed{f.gateway, f}
	o := api.Options{Servers: operated{f.gateway.Operator}, Log: f.gateway.Operator.Log, Approvals: f.gateway.Operator.Approvals, Definitions: f.gateway.Definitions, Key: f.gateway.Operator.Key, Desk: f.desk, Operates: auth.Operates, Logger: f.log, Operated: f.gateway.Auditor.Operated}
	o.PublicURL = c.PublicURL
	o.Look = api.Look{Gateway: view, Catalog: view, Artifacts: view, Labels: f.gateway.Labels(), History: &f.gateway.Reports.History, Captures: func() bool { return f.gateway.Config().Console.Capture }, Guard: f.wholly(closed)}
	if f.gateway.Store.Lasts() == store.Cluster {
		o.Cluster, o.Elsewhere = nodes{f.cluster, f.gateway}, f.gateway.Operator.Elsewhere
		o.Checked, o.Usage = fromNode, view.usage
	}
	if kept := f.gateway.Store.Events(); kept != nil {
		o.Events = kept
	}
	o.Machine = f.machine
	o.Settings = func(key string, set bool) (string, []api.Setting) {
		now := f.gateway.Config()
		return now.Path(), Settings(now, []string{key}, set)
	}
	o.Calls = &gated{[]gate{{"loop", f.gateway.Agents.Loops.Pass}, {"scope", f.unscoped}, {"mode", inMode}}, f.stream.front}
	if f.gateway.Auditor.Enabled() {
		o.Audit, o.Changed = f.gateway.Auditor, f.gateway.Auditor.ChangedByCommand
	}
	if auth.Required() {
		o.Tokens = closed.Wrap
		o.Login = f.signIns.SignedIn
	}
	a := api.New(o)
	mux.Handle(api.Path, withInstance(f.gateway.Run.Instance, open.Wrap(a)))
	return a.Close
}

// operated implements api.Servers.
type operated struct{ *gateway.Operator }

// Restart implements api.Servers.
func (o operated) Restart(ctx context.Context, name string) (api.Server, error) {
	u, err := o.Operator.Restart(ctx, name)
	return ServerOf(u), err
}

// List implements api.Servers.
func (o operated) List() (all []api.Server) {
	for _, u := range o.Servers() {
		all = append(all, ServerOf(u))
	}
	return all
}

// ServerOf returns the state of a server as the API tells it.
func ServerOf(u gateway.UpstreamHealth) api.Server {
	return api.Server{
		Name: u.Name, State: u.State, Listed: u.Listed, Tools: u.Tools, Resources: u.Resources, Prompts: u.Prompts, Error: u.Error, Note: u.Note,
	}
}
