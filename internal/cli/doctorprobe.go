package cli

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/setup/machine"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/web/api"
)

// probe returns the servers as the gateway of this configuration sees them. If none runs, the
// servers are started in this process, and probe returns the states that are known when ctx ends.
func (d *examination) probe(ctx context.Context, c *config.Config) (doctor.Report, error) {
	at, err := locateByRecord(d.a, ctx, d.setup.Path, d.token)
	if at == "" && err == nil && d.setup.Distrust == nil {
		at, err = locateByAddress(d.a, ctx, d.setup.Path, d.token)
	}
	if err != nil {
		return doctor.Report{}, err
	}
	if at != "" {
		return d.probeRunning(ctx, at)
	}
	if d.setup.Distrust != nil {
		return doctor.Report{}, d.setup.Distrust
	}
	lineage, err := descend(d.a.lookupEnv, d.setup.Path)
	if err != nil {
		return doctor.Report{}, err
	}
	log := &listener{mu: new(sync.Mutex), stderr: map[string][]string{}, noise: map[string]string{}, over: map[string]bool{}}
	g, err := gateway.New(ctx, c, gateway.Options{
		Version: d.a.version, Logger: slog.New(log), Environ: d.a.environ(), Lineage: lineage, RedactResults: true, Shell: true, Credentials: openCredentials(d.a, c),
	})
	if err != nil {
		return doctor.Report{}, err
	}
	d.end = func() { closeGateway(g) }
	_ = g.Settled(ctx) // the states say which servers have failed or are late
	report := machine.Report(g.Views.Health(ctx), g.Views.Catalog(ctx, time.Time{}))
	report.Listed = machine.ListedNames(c, g.Views.Tools(ctx, machine.ListedQuery(c)))
	labels := g.Labels().Rules(ctx)
	report.Flow = &labels
	log.fill(report.Servers)
	return report, nil
}

// probeRunning asks the gateway at an MCP URL.
func (d *examination) probeRunning(ctx context.Context, at string) (doctor.Report, error) {
	h, err := settledHealth(ctx, at, d.token)
	if err != nil {
		return doctor.Report{}, err
	}
	info := &gateway.CatalogInfo{}
	if err := fetchBeside(ctx, at, d.token, "catalog", info); err != nil {
		return doctor.Report{}, err
	}
	report := machine.Report(h, info)
	report.Running, report.URL, report.Version = true, withoutPassword(at), h.Version
	runningOutput(ctx, d.a, d.setup.Path, report.Servers)
	if tools, err := toolsAt(at, d.token)(ctx, machine.ListedQuery(d.setup.Config)); err == nil {
		report.Listed = machine.ListedNames(d.setup.Config, tools)
	}
	if o, err := findOperator(d.a, ctx, target{config: d.setup.Path}); err == nil {
		labels := &flow.Listing{}
		if o.get(ctx, "flow", labels) == nil {
			report.Flow = labels
		}
	}
	return report, nil
}

// runningOutput adds the output of programs to findings about servers that do not work, if this user
// operates the gateway of the configuration. It is the output of the last program that wrote anything,
// because the gateway starts a program again and again. Without it a finding has only the error.
func runningOutput(ctx context.Context, a *process, path string, servers []doctor.Server) {
	o, err := findOperator(a, ctx, target{config: path})
	if err != nil {
		return
	}
	for i, s := range servers {
		if s.Error == "" && s.State != string(upstream.StateStarting) {
			continue
		}
		var found api.Lines
		if err := o.get(ctx, serverPath(s.Name, "log")+"?lines="+strconv.Itoa(machine.KeptLines), &found); err != nil {
			return
		}
		servers[i].Stderr = machine.LastOutput(found.Lines)
	}
}

// settleLimit is how long the servers of a running gateway may go on starting, so that time is left
// for the report.
const settleLimit = 3 * time.Second

// settledHealth returns the health of a gateway, when no server of it is starting any more or the
// time is up.
func settledHealth(ctx context.Context, at, token string) (*gateway.Health, error) {
	for up := time.Now().Add(settleLimit); ; {
		h, err := fetchHealth(ctx, at, token)
		if err != nil || h.Status != gateway.StatusStarting || time.Now().After(up) {
			return h, err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return h, nil
		case <-timer.C:
		}
	}
}

// A listener is a log that keeps the output of servers, by their names. The lines have no secrets.
type listener struct {
	server string // from With

	mu     *sync.Mutex // guards below; shared with the listeners of servers
	stderr map[string][]string
	noise  map[string]string
	over   map[string]bool // the first attempt to start the server has failed
}

// Enabled implements slog.Handler. Lines of stderr are logged at the level debug.
func (l *listener) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *listener) Handle(_ context.Context, r slog.Record) error {
	server, line := l.server, ""
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "upstream":
			server = attr.Value.String()
		case "line":
			line = attr.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if name, ok := strings.CutPrefix(server, `upstream "`); ok {
		server = strings.TrimSuffix(name, `"`) // as package stdio names it
	}
	switch {
	case line == "" && r.Level >= slog.LevelWarn:
		l.over[server] = true
	case line == "" || server == "":
	case r.Message == "stderr" && l.over[server]: // a further attempt says the same
	case r.Message == "stderr":
		lines := append(l.stderr[server], line)
		l.stderr[server] = slices.Clone(lines[max(0, len(lines)-machine.KeptLines):])
	case strings.HasPrefix(r.Message, "skipped a line of stdout") && l.noise[server] == "":
		l.noise[server] = line
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l *listener) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *l
	for _, attr := range attrs {
		if attr.Key == "upstream" {
			next.server = attr.Value.String()
		}
	}
	return &next
}

// WithGroup implements slog.Handler.
func (l *listener) WithGroup(string) slog.Handler { return l }

// fill adds the lines to the servers that printed them.
func (l *listener) fill(servers []doctor.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range servers {
		servers[i].Stderr, servers[i].Noise = l.stderr[s.Name], l.noise[s.Name]
	}
}
