package app

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/runs"
)

// programs runs the programs of agents. Without a command that starts workers it runs none.
type programs struct {
	pool     *program.Pool // nil: programs are off until the next start
	journals *runs.Journals
	e        *Engine
}

// newPrograms returns the programs of an engine. Nothing is started before the first program.
func newPrograms(e *Engine, c *config.Config, log *slog.Logger) *programs {
	p := &programs{e: e}
	command, err := program.Self()
	if err != nil {
		if c.Programs.Enabled {
			log.Info("tool_run is off", "err", err)
		}
		return p
	}
	p.pool = program.NewPool(program.Options{Command: command, Workers: c.Programs.Workers, Log: log})
	p.journals = runs.NewJournals(runs.Options{
		Docs: e.Store.Docs(), TTL: c.Artifacts.TTL,
		Keep: func(ctx context.Context, principal, profile string, value json.RawMessage) (string, error) {
			kept, err := e.Data.Results.At(profile).PutDigested(ctx, principal, "application/json", metatool.ToolRun, value, nil)
			return kept.Handle, err
		},
		Kept: func(ctx context.Context, principal, profile, handle string) (json.RawMessage, error) {
			lease, err := e.Data.Results.At(profile).Open(ctx, principal, handle)
			if err != nil {
				return nil, err
			}
			defer lease.Close()
			data, err := lease.Bytes(ctx)
			return append(json.RawMessage(nil), data...), err
		},
	})
	return p
}

// runner returns what runs programs with a configuration, nil if they are off.
func (p *programs) runner(c *config.Config) *runs.Runner {
	if p.pool == nil || !c.Programs.Enabled {
		return nil
	}
	of := &c.Programs
	memory := int64(of.Memory)
	if limit := p.e.Data.Memory.Limit(); limit > 0 {
		memory = min(memory, limit/4) // what one principal is sure to get
	}
	return &runs.Runner{Engine: p.pool, Journals: p.journals, Memory: p.e.Data.Memory, Limits: runs.Limits{
		Calls: of.Calls, Parallel: of.Parallel, Timeout: of.Timeout, Memory: memory, Output: int64(of.Output),
	}}
}

func (p *programs) close(ctx context.Context) {
	if p.pool == nil {
		return
	}
	if err := p.pool.Close(ctx); err != nil {
		p.e.log.Warn("programs did not end in time", "err", err)
	}
}

// programsKey is the key of the part. The workers that wait are started for all configurations.
var programsKey = part.Key{Name: "programs", Late: "programs.workers", Split: func(c *config.Config) (live, late any) {
	rest := c.Programs
	rest.Workers = 0
	return rest, c.Programs.Workers
}}
