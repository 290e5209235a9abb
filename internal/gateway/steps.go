package gateway

import (
	"slices"

	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/policy/hook"
	"github.com/weir-mcp/weir/internal/tables"
)

// CallSteps returns the names of the steps of a call of a tool, as a gateway with a configuration makes it, in
// their order on the way to the server. It makes a gateway without servers, and starts nothing.
func CallSteps(c *config.Config) []string {
	opts := metatool.Options{
		Tables:       tables.Options{Fetches: func(string) bool { return true }, Refusals: new(tables.Refusals)},
		CheckHeaders: checkHeaders,
	}
	policy.Controls(c, &opts)
	if c.Audit.Dir != "" {
		opts.Audit = new(calls.Recorder)
	}
	if slices.ContainsFunc(c.Guards.Hooks, func(h config.Hook) bool { return slices.Contains(h.On, config.OnResult) }) {
		opts.Hooks = hook.New([]hook.Options{{OnResult: true, Command: []string{"never run"}}}, nil, nil)
	}
	mode, _ := metatool.ParseMode(string(c.Mode)) // the configuration has checked it
	if mode == metatool.ModeAuto {
		mode = metatool.ModeGateway
	}
	for _, way := range metatool.New(opts).Steps(mode) {
		if way.Tool == metatool.ToolExecute || way.Tool == "" {
			return way.Steps
		}
	}
	return nil // cannot happen: each mode calls tools
}
