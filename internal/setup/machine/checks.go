package machine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// checkup looks at a running gateway and its machine, as weir doctor does. It implements api.Checks.
type checkup struct {
	Options
	gateway *gateway.Gateway

	mu sync.Mutex // held by an examination: it takes seconds and starts programs
}

// Doctor implements api.Checks.
func (c *checkup) Doctor(ctx context.Context, name string) ([]api.Finding, error) {
	var out []api.Finding
	err := c.examine(ctx, name, func(list []doctor.Finding) error {
		for _, f := range list {
			found := api.Finding{ID: f.ID, Level: string(f.Level), Thing: f.Thing, Text: f.Text, Owner: f.Owner, Fix: f.Fix, Lines: f.Lines}
			if f.Repair != nil {
				found.Mends = f.Repair.Show
			}
			out = append(out, found)
		}
		return nil
	})
	return out, err
}

// Mend implements api.Checks.
func (c *checkup) Mend(ctx context.Context, m api.Mending) (out api.Mended, err error) {
	err = c.examine(ctx, "", func(list []doctor.Finding) error {
		out, err = mendOne(ctx, list, m)
		return err
	})
	return out, err
}

// mendOne does what one of the findings mends. A change that has begun goes on when the caller has gone.
func mendOne(ctx context.Context, list []doctor.Finding, m api.Mending) (api.Mended, error) {
	at := slices.IndexFunc(list, func(f doctor.Finding) bool {
		return f.ID == m.ID && f.Thing == m.Thing && f.Repair != nil && f.Repair.Show == m.Mends
	})
	if at < 0 {
		return api.Mended{}, mcp.Errorf(mcp.KindNotFound, "the doctor does not find this any more: let it look again")
	}
	if err := ctx.Err(); err != nil {
		return api.Mended{}, err // and may not have looked at everything
	}
	operation, err := list[at].Repair.Do(context.WithoutCancel(ctx))
	out := api.Mended{Mends: m.Mends, Operation: operation}
	if err != nil && operation != 0 {
		out.Failed, err = text.Line(err.Error(), 1000), nil
	}
	return out, err
}

// examine looks at the gateway and its machine, one examination at a time, and hands the findings to use.
func (c *checkup) examine(ctx context.Context, name string, use func([]doctor.Finding) error) error {
	if !c.mu.TryLock() {
		return mcp.Errorf(mcp.KindOverloaded, "the doctor is looking already: ask again in some seconds")
	}
	defer c.mu.Unlock()
	d, err := c.Examine(ctx, name)
	if err != nil {
		return err
	}
	if err := d.Check(); err != nil {
		return mcp.Errorf(mcp.KindNotFound, "%s", text.Line(err.Error(), 1000))
	}
	if d.Config != nil {
		d.Sandbox = c.gateway.Operator.Sandboxes.Describe
		d.Probe = func(ctx context.Context) (doctor.Report, error) { return c.probe(ctx, d.Config), nil }
	}
	return use(doctor.Run(ctx, doctor.System(runtime.GOOS, c.LookupEnv), d))
}

// probe returns the servers as this gateway sees them.
func (c *checkup) probe(ctx context.Context, conf *config.Config) doctor.Report {
	report := Report(c.gateway.Health(), c.gateway.Catalog.Info(time.Time{}))
	report.Running, report.URL, report.Version = true, c.URL, c.Version
	for i, s := range report.Servers {
		if s.Error == "" && s.State != string(upstream.StateStarting) {
			continue
		}
		report.Servers[i].Stderr = LastOutput(c.gateway.Operator.Log.Lines(s.Name, 0, KeptLines))
	}
	report.Listed = ListedNames(conf, c.gateway.Views.Tools(ctx, ListedQuery(conf)))
	labels := c.gateway.Labels().Rules(ctx)
	report.Flow = &labels
	return report
}
