package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Columns is the step of abstract_domains: the agent reads the columns that it names, and the next
// tool gets the others. It refuses a call, before anything runs, if there is no address from which
// its rows could be fetched.
func (t *Tables) Columns() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseSplit, Name: "columns",
		Before: func(_ context.Context, c *dispatch.Call) error {
			d := division{Tables: t, call: c, Split: &c.Split}
			if err := d.read(); err != nil {
				return err
			}
			return d.prepare()
		},
		After: func(ctx context.Context, c *dispatch.Call, err error) error {
			d := division{Tables: t, call: c, Split: &c.Split}
			if err != nil && c.Ran {
				err = d.stay(err)
			}
			if err != nil || c.DryRun || c.Task != "" {
				return err
			}
			c.Answer = c.Reply
			c.Reply, err = d.divide(ctx, c.Reply)
			return err
		}}
}

// stay returns the error for an answer that cannot be read, with the way to leave the rows at their
// server if they were asked for with the call.
func (d *division) stay(err error) error {
	var e *result.Error
	if !d.Keep || d.reach(d.call.Entry.Upstream) != ReachKeep || !errors.As(err, &e) || e.Code != result.UpstreamError {
		return err
	}
	out := *e
	out.Message += fmt.Sprintf(", or set mcpServers.%s.tables.relay: true, which leaves the rows at the server", d.call.Entry.Upstream)
	return &out
}

// division reads and applies the Split of one call.
type division struct {
	*Tables
	*dispatch.Split // of call
	call            *dispatch.Call
}

// read parses abstract_domains and mode.
func (d *division) read() (err error) {
	if d.Domains, err = plane.DomainsOf(d.Asked); err != nil {
		return d.ArgsError("%v", err)
	}
	if d.Mode, err = plane.ModeOf(d.AskedMode); err != nil {
		return d.ArgsError("%v", err)
	}
	return nil
}

// prepare sets the parameters of a tool that splits its result itself.
func (d *division) prepare() error {
	if d.Native = d.call.Entry.ResourceTool; d.Native && rawjson.IsObject(d.call.Args) {
		if err := d.ask(); err != nil {
			return d.ArgsError("args: %v", err)
		}
	}
	if len(d.Domains) == 0 || d.Mode != plane.Async || d.Native && !d.Keep {
		return nil
	}
	if _, err := d.base(); err != nil {
		return d.ArgsError("%s: %v; nothing was run", plane.ParamDomains, err)
	}
	return nil
}

// ask writes the columns and the mode into the arguments. Without abstract_domains, the tool's own
// arguments count; the tool reports their faults.
func (d *division) ask() (err error) {
	args := d.call.Args
	if len(d.Domains) > 0 {
		if args, err = rawjson.Set(args, plane.ParamDomains, rawjson.Quote(joinDomains(d.Domains))); err != nil {
			return err
		}
		if args, err = rawjson.Set(args, plane.ParamMode, rawjson.Quote(string(d.Mode))); err != nil {
			return err
		}
	} else {
		d.Domains, _ = plane.DomainsOf(rawjson.Get(args, plane.ParamDomains))
		d.Mode, _ = plane.ModeOf(rawjson.Get(args, plane.ParamMode))
	}
	if len(d.Domains) > 0 && d.Mode == plane.Async && d.reach(d.call.Entry.Upstream).keeps() {
		d.Keep = true
		args, err = rawjson.Set(args, plane.ParamMode, rawjson.Quote(string(plane.Sync)))
	}
	d.call.Args = args
	return err
}

// joinDomains writes names in the form that a resource tool reads.
func joinDomains(names []string) string {
	for _, name := range names {
		if strings.ContainsAny(name, `,"[`) {
			return string(rawjson.NewWriter(nil).Strings(names).Bytes())
		}
	}
	return strings.Join(names, ",")
}

// divide returns the agent's part of a result: the requested columns, unless the tool has selected
// them itself, and no bodies. The result may be shared and is not changed.
func (d *division) divide(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	asked := d.Native && len(d.Domains) > 0 && (d.Mode == plane.Sync || d.Keep)
	if !d.Native && len(d.Domains) == 0 || !dispatch.Cacheable(result) { // nothing to divide; an error, or a request for input
		return d.hideBodies(ctx, asked, result)
	}
	kept := false
	if d.Native && d.Keep {
		var err error
		if result, kept, err = d.keepBodies(ctx, result); err != nil {
			return nil, d.keepError(ctx, err)
		}
	}
	switch {
	case kept:
	case d.Native && d.reach(d.call.Entry.Upstream).Local():
		r := relays{store: d.Store, base: d.base, ttl: d.opts.TTL, principal: d.call.Request.Session.Principal(), label: d.call.Entry.ID}
		relayed, err := r.replace(ctx, result)
		if err != nil {
			return nil, d.keepError(ctx, err)
		}
		result = relayed
	case !d.Native && len(d.Domains) > 0:
		return d.project(ctx, result)
	}
	return d.hideBodies(ctx, asked, result)
}

// project splits the result of a tool without S2SP.
func (d *division) project(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	n, err := memory.TakeShare(ctx, tableCost*int64(len(raw)))
	if err != nil {
		return nil, d.keepError(ctx, err)
	}
	defer memory.Give(ctx, n)
	rows, err := tableOf(raw, d.detect(d.call.Entry.Upstream))
	switch {
	case err != nil && !d.ReadsMore:
		return raw, nil // without tool_view, a stored result could not be read
	case err != nil:
		return nil, d.notTable(ctx, raw, err)
	}
	resourceURL := ""
	if d.Mode == plane.Async {
		if resourceURL, err = d.deposit(ctx, rows); err != nil {
			return nil, d.keepError(ctx, err)
		}
	}
	out := result.Text(plane.Response(rows, d.Domains, d.Mode, resourceURL))
	if d.Mode == plane.Sync {
		return d.hideBodies(ctx, true, out)
	}
	return out, nil
}

// deposit stores rows for one fetch and returns their URL.
func (d *division) deposit(ctx context.Context, rows *table.Table) (string, error) {
	base, err := d.base()
	if err != nil {
		return "", err
	}
	token, err := d.Store.Deposit(ctx, d.call.Request.Session.Principal(), d.call.Entry.ID, rows, d.opts.TTL)
	if err != nil {
		return "", err
	}
	return plane.URL(base, token.Value), nil
}

// keepError returns the error for rows that could not be stored. The tool has run, so the arguments
// are not at fault, and another call would run the tool again.
func (d *division) keepError(ctx context.Context, err error) error {
	var e *result.Error
	if errors.As(err, &e) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &result.Error{Code: result.UpstreamError, Cause: err, Details: toolOf(d.call), Ran: true,
		Message: fmt.Sprintf("%s HAS run, but its rows could not be kept for other servers: %v. Another call runs it again; mode sync needs no room", d.call.Entry.ID, err)}
}

// toolOf returns the details of an error that name the tool.
func toolOf(c *dispatch.Call) json.RawMessage {
	return rawjson.NewWriter(nil).Object().Key("tool_id").String(c.Entry.ID).EndObject().Bytes()
}

// notTable returns the error for a result without columns. The tool has run, so its result is
// stored.
func (d *division) notTable(ctx context.Context, raw json.RawMessage, why error) error {
	id, upstream := d.call.Entry.ID, d.call.Entry.Upstream
	e := &result.Error{Code: result.ArgsInvalid, Cause: why, Ran: true}
	if form := settingFor(raw, upstream, d.detect(upstream)); form != "" {
		e.Message = fmt.Sprintf("abstract_domains: what %s answered is %s", id, form)
	} else {
		e.Message = fmt.Sprintf("abstract_domains: what %s answered is no table (%s), so it has no columns to choose; call it without abstract_domains",
			id, strings.TrimPrefix(why.Error(), table.ErrNotTable.Error()+": "))
	}
	w := rawjson.NewWriter(nil).Object().Key("tool_id").String(id)
	if a, err := d.Store.At(identity.RouteOf(ctx).Profile).Marked(d.call.Label.Mark()).Put(ctx, d.call.Request.Session.Principal(), "application/json", id, raw); err == nil {
		e.Message += "; it has run, and its answer is kept as " + a.Handle
		w.Key("handle").String(a.Handle)
	}
	e.Details = w.EndObject().Bytes()
	return e
}
