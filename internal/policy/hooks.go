package policy

import (
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/policy/hook"
)

// Hooks are the hooks of the current configuration, and what their programs need.
type Hooks struct {
	env     []string // of programs
	redact  func([]byte) []byte
	log     *slog.Logger
	keeper  child.Keeper
	current atomic.Pointer[hook.Set]
}

// NewHooks returns Hooks without any. env is the environment of their programs, and redact removes secrets
// from what they get.
func NewHooks(env []string, redact func([]byte) []byte, log *slog.Logger) *Hooks {
	return &Hooks{env: env, redact: redact, log: log}
}

// Configure returns the hooks of a configuration, which take the place of those before.
func (h *Hooks) Configure(c *config.Config) *hook.Set {
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

// Close ends what the hooks leave running. Questions have been answered.
func (h *Hooks) Close() {
	h.current.Swap(nil).Close()
	h.keeper.Close()
}
