package runs

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/store"
)

// Programs runs the programs of agents as configured. Without a command that starts workers it runs none.
type Programs struct {
	pool     *program.Pool // nil: programs are off until the next start
	journals *Journals
	memory   *memory.Pool
	log      *slog.Logger
	listed   bool // saved programs are in the catalog
}

// ProgramNeeds are the things that Programs stand on.
type ProgramNeeds struct {
	Log     *slog.Logger
	Docs    store.Docs
	Memory  *memory.Pool
	Results *artifact.Local
	Tool    string // the name of the meta-tool that runs programs
}

// NewPrograms returns the programs of a gateway. Nothing is started before the first program.
func NewPrograms(c *config.Config, n ProgramNeeds) *Programs {
	p := &Programs{memory: n.Memory, log: n.Log}
	command, err := program.Self()
	if err != nil {
		if c.Programs.Enabled {
			n.Log.Info(n.Tool+" is off", "err", err)
		}
		return p
	}
	p.pool = program.NewPool(program.Options{Command: command, Workers: c.Programs.Workers, Log: n.Log})
	p.journals = NewJournals(Options{
		Docs: n.Docs, TTL: c.Artifacts.TTL,
		Keep: func(ctx context.Context, principal, profile, mark string, value json.RawMessage) (string, error) {
			kept, err := n.Results.At(profile).Marked(mark).PutDigested(ctx, principal, "application/json", n.Tool, value, nil)
			return kept.Handle, err
		},
		Kept: func(ctx context.Context, principal, profile, handle string) (json.RawMessage, error) {
			lease, err := n.Results.At(profile).Open(ctx, principal, handle)
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

// Runner returns the runner of programs with a configuration, nil if they are off.
func (p *Programs) Runner(c *config.Config) *Runner {
	if p.pool == nil || !c.Programs.Enabled {
		return nil
	}
	of := &c.Programs
	most := int64(of.Memory)
	if limit := p.memory.Limit(); limit > 0 {
		most = min(most, limit/4) // what one principal is sure to get
	}
	r := &Runner{Engine: p.pool, Journals: p.journals, Memory: p.memory, Limits: Limits{
		Calls: of.Calls, Parallel: of.Parallel, Timeout: of.Timeout, Memory: most, Output: int64(of.Output),
	}}
	if r.Saved = savedOf(c); len(r.Saved) > 0 {
		r.SavedAt = config.SavedServer
	}
	return r
}

// Close ends the workers.
func (p *Programs) Close(ctx context.Context) {
	if p.pool == nil {
		return
	}
	if err := p.pool.Close(ctx); err != nil {
		p.log.Warn("programs did not end in time", "err", err)
	}
}

// ProgramsKey is the key of the part. The workers that wait are started for all configurations.
var ProgramsKey = part.Key{Name: "programs", Late: "programs.workers", Split: func(c *config.Config) (live, late any) {
	rest := c.Programs
	rest.Workers = 0
	return rest, c.Programs.Workers
}}
