package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/agentclient"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// callServer runs a tool of one server or agent through the router, as another agent would. It
// returns the tool's own result: nothing is held back.
func callServer(a *process, ctx context.Context, r *callRequest) error {
	if r.target.config != "" {
		return failf(exitUsage, "--server and --config: the router of a running weir is at --url. Leave out --server and write %s:%s", r.server, r.id)
	}
	base, token, err := routerOf(a, ctx, r.target)
	if err != nil {
		return err
	}
	out, done, err := r.output.open(a)
	if err != nil {
		return err
	}
	return done(routeCall(a, ctx, r, base, token, out))
}

// routeCall makes the call of a request at a router and writes its result.
func routeCall(a *process, ctx context.Context, r *callRequest, base, token string, out *resultWriter) error {
	agent, tool := r.server, r.id
	// base and token take the environment into account already.
	c, err := agentclient.New(base, token, agentclient.WithEnv(func(string) string { return "" }))
	if err != nil {
		return failf(exitUsage, "--url: %w", err)
	}
	defer c.Close()
	stop := a.spin("running " + tool + " of " + agent)
	defer stop()
	args, err := agentArgs(ctx, c, agent, tool, r.given)
	if err != nil {
		return agentFailure(err)
	}
	var options []agentclient.CallOption
	if a.stderr.screen() {
		options = append(options, agentclient.OnProgress(func(p agentclient.Progress) {
			stop()
			tellProgress(a, progress{Progress: p.Progress, Total: p.Total, Message: p.Message})
		}))
	}
	raw, err := c.Request(ctx, agent, "tools/call", map[string]any{"name": tool, "arguments": args}, options...)
	if err != nil {
		return agentFailure(err)
	}
	if id := taskOf(raw); id != "" {
		if raw, err = awaitTask(a, ctx, c, agent, id); err != nil {
			return agentFailure(err)
		}
	}
	stop()
	answer := toolResult{raw: raw}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return failf(exitUnavailable, "server %q answered something that is no result of a tool: %w", agent, err)
	}
	return out.write(&answer)
}

// routerOf returns the router's URL without a path, and its token.
func routerOf(a *process, ctx context.Context, t target) (base, token string, err error) {
	token = t.token
	for _, name := range []string{"WEIR_TOKEN", "AGENT_TOKEN"} {
		if token == "" {
			token, _ = a.lookupEnv(name)
		}
	}
	at := t.url
	if at == "" {
		at, _ = a.lookupEnv("WEIR_URL")
	}
	_, host := a.lookupEnv("ROUTER_HOST")
	_, port := a.lookupEnv("ROUTER_PORT")
	if at == "" && !host && !port { // else an agent calls another one
		if at, _, err = runningURL(a, ctx, target{token: token}); err != nil {
			return "", "", err
		}
	}
	if at == "" {
		return routerURL(a.lookupEnv), token, nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", "", failf(exitUsage, "--url %q is no http or https URL; it looks like %s", at, defaultURL)
	}
	u.Path, u.RawQuery, u.Fragment = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp"), "", ""
	return u.String(), token, nil
}

// agentArgs converts arguments to JSON. If their types are ambiguous, it asks for the tool's
// schema.
func agentArgs(ctx context.Context, c *agentclient.Client, agent, tool string, given toolArgs) (json.RawMessage, error) {
	if given.whole != nil || len(given.each) == 0 {
		return given.json(nil)
	}
	tools, err := c.ListTools(ctx, agent)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if t.Name == tool {
			return given.json(t.InputSchema)
		}
	}
	return given.json(nil)
}

// agentFailure adds the exit code to an agent's error.
func agentFailure(err error) error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		return err
	}
	code := exitUnavailable
	switch wire.Code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound:
		code = exitUsage
	case -32000:
		code = exitTool
	case -32001:
		code = exitRefused
	}
	return failf(code, "%s%s (error %d)", wire.Message, namesIn(wire.Data), wire.Code)
}

// maxTold bounds the names that an error message suggests.
const maxTold = 20

// namesIn returns the agents or tools that an error offers.
func namesIn(data json.RawMessage) string {
	var there struct{ Agents, Tools []string }
	if json.Unmarshal(data, &there) != nil {
		return ""
	}
	names := append(there.Agents, there.Tools...)
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > maxTold {
		names, more = names[:maxTold], ", …"
	}
	return "; there are: " + strings.Join(names, ", ") + more
}
