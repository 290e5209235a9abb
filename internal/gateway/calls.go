package gateway

import (
	"context"
	"log/slog"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dataplane"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/store/nodestore"
)

// Calls are the things that calls at /mcp stand on, and that outlast a configuration.
type Calls struct {
	Turns    *work.Turns     // limits computations for agents and the console
	state    *metatool.State // quotas and session history
	rounds   *bridge.Rounds  // calls that wait while a modern agent is asked something
	hooks    *policy.Hooks
	programs *runs.Programs
}

// newCalls returns the Calls of a gateway that has made none, without hooks and programs.
func newCalls(s *nodestore.Store, state *metatool.State, log *slog.Logger) *Calls {
	return &Calls{Turns: work.NewTurns(0), state: state, rounds: bridge.NewRounds(bridge.Options{Nodes: states(s), Logger: log})}
}

// run makes Calls run hooks and programs. clean removes secrets from what hooks get.
func (k *Calls) run(c *config.Config, s *nodestore.Store, d *dataplane.Data, environ []string, clean func([]byte) []byte, log *slog.Logger) {
	k.hooks = policy.NewHooks(environ, clean, log)
	k.programs = runs.NewPrograms(c, runs.ProgramNeeds{Log: log, Docs: s.Docs(), Memory: d.Memory, Results: d.Results, Tool: metatool.ToolRun})
}

// configure adds the Calls to the options of the meta-tools for a configuration.
func (k *Calls) configure(c *config.Config, o *metatool.Options) {
	o.State, o.Turns = k.state, k.Turns
	o.Programs, o.Hooks = k.programs.Runner(c), k.hooks.Configure(c)
}

// closeHooks ends the hooks.
func (k *Calls) closeHooks(context.Context) { k.hooks.Close() }
