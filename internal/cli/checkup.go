package cli

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/api"
	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/doctor"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// A checkup looks at a running gateway and its machine, as weir doctor does. It implements api.Checks.
type checkup struct {
	a      *process
	engine *app.Engine
	path   string // of the configuration
	url    string // of the gateway, for people

	mu sync.Mutex // held by an examination: it takes seconds and starts programs
}

// Doctor implements api.Checks.
func (c *checkup) Doctor(ctx context.Context, name string) ([]api.Finding, error) {
	if !c.mu.TryLock() {
		return nil, mcp.Errorf(mcp.KindOverloaded, "the doctor is looking already: ask again in some seconds")
	}
	defer c.mu.Unlock()
	d := &examination{a: c.a, setup: doctor.Setup{Only: name}}
	defer d.close()
	var wrong *failure
	switch err := d.prepare(ctx, c.path); {
	case errors.As(err, &wrong) && name != "":
		return nil, mcp.Errorf(mcp.KindNotFound, "%s", text.Line(err.Error(), 1000))
	case err != nil:
		return nil, err
	}
	if d.setup.Config != nil {
		d.setup.Probe = func(ctx context.Context) (doctor.Report, error) { return c.probe(ctx, d.setup.Config), nil }
	}
	var out []api.Finding
	for _, f := range doctor.Run(ctx, doctor.System(runtime.GOOS, c.a.lookupEnv), d.setup) {
		found := api.Finding{ID: f.ID, Level: string(f.Level), Thing: f.Thing, Text: f.Text, Owner: f.Owner, Fix: f.Fix, Lines: f.Lines}
		if f.Repair != nil {
			found.Mends = f.Repair.Show
		}
		out = append(out, found)
	}
	return out, nil
}

// probe returns the servers as this gateway sees them.
func (c *checkup) probe(ctx context.Context, conf *config.Config) doctor.Report {
	report := reportOf(c.engine.Health(), c.engine.CatalogInfo(time.Time{}))
	report.Running, report.URL, report.Version = true, c.url, c.a.version
	for i, s := range report.Servers {
		if s.Error == "" && s.State != string(upstream.StateStarting) {
			continue
		}
		report.Servers[i].Stderr = lastOutput(c.engine.Operator.Log.Lines(s.Name, 0, keptLines))
	}
	report.Listed = listedNames(conf, c.engine.Tools(ctx, listedQuery(conf)))
	return report
}
