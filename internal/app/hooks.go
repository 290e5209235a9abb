package app

import (
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/policy/hook"
)

// hooks are the hooks of the current configuration, and what their programs need.
type hooks struct {
	env     []string // of programs
	redact  func([]byte) []byte
	log     *slog.Logger
	keeper  child.Keeper
	current atomic.Pointer[hook.Set]
}

// configure returns the hooks of a configuration, which take the place of those before.
func (h *hooks) configure(c *config.Config) *hook.Set {
	var all []hook.Options
	for i := range c.Guards.Hooks {
		one := &c.Guards.Hooks[i]
		o := hook.Options{
			Name: one.Place(i), OnCall: slices.Contains(one.On, config.OnCall), OnResult: slices.Contains(one.On, config.OnResult),
			URL: one.URL, Command: one.Command, Env: h.env, Keeper: &h.keeper, Timeout: one.Timeout, Open: one.Failure == config.HookAllow,
		}
		for name, value := range one.Headers {
			if o.Headers == nil {
				o.Headers = map[string]string{}
			}
			o.Headers[name] = value.Reveal()
		}
		all = append(all, o)
	}
	s := hook.New(all, h.redact, h.log)
	h.current.Swap(s).Close()
	return s
}

// close ends what the hooks leave running. Questions have been answered.
func (h *hooks) close() {
	h.current.Swap(nil).Close()
	h.keeper.Close()
}
