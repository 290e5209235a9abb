package gateway

import (
	"context"
	"errors"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/part"
)

// A Face serves a gateway to clients. Reload updates it.
type Face interface {
	// Apply applies a configuration that the Gateway has applied already.
	Apply(old, next *config.Config)
}

// maxFailed bounds the names of failed servers that wait for Follow.
const maxFailed = 64

// noteFailed tells Follow that a server has failed. A name without room is left out: the server fails
// again, or works.
func (o *Operator) noteFailed(server string) {
	select {
	case o.failed <- server:
	default:
	}
}

// Follow applies changes of the configuration file until ctx ends. It fetches the secrets of failed
// servers again.
func (g *Gateway) Follow(ctx context.Context, opts config.Options, face Face, log *observe.Log) {
	opts.Failed = g.Operator.failed
	err := config.Watch(ctx, g.Config(), opts, func(next *config.Config, warnings []config.Warning, err error) {
		g.Reread(next, warnings, err, face, log)
	})
	if err != nil {
		log.Warn("changes of the configuration are not seen any more; restart weir to apply them", "err", err)
	}
}

// Reread applies a configuration file that was read again, or logs why it cannot be read, and tells
// Reloads.
func (g *Gateway) Reread(next *config.Config, warnings []config.Warning, err error, face Face, log *observe.Log) {
	for _, w := range warnings {
		log.Warn("configuration", "at", w.String())
	}
	if err == nil {
		err = g.Reload(next, face, log)
	}
	g.Operator.Reloads.read(next, err)
	var broken *config.Error
	switch {
	case errors.As(err, &broken):
		for _, p := range broken.Problems {
			log.Error("the new configuration is not used; the old one stays", "problem", p.String())
		}
	case err != nil:
		log.Error("the new configuration is not used; the old one stays", "err", err)
	}
}

// LogApplied is the message of the log record that tells of an applied configuration.
const LogApplied = "the configuration has changed and is applied"

// Reload applies the changes in next and logs which settings need a restart. It restarts the
// servers whose entries changed; the others continue. If a part cannot use next, the error says why,
// and nothing has changed. Do not run two Reloads at the same time.
func (g *Gateway) Reload(next *config.Config, face Face, logger *observe.Log) error {
	r := part.Reload{Now: g.Config(), Next: next, Change: config.Diff(g.Config(), next)}
	change := r.Change
	if change.Empty() {
		return nil
	}
	apply, err := g.parts.Prepare(r)
	if err != nil {
		return err
	}
	applied, waits := g.parts.Divide(r)
	logger.Apply(next)
	apply()
	face.Apply(r.Now, next)
	for _, name := range change.Omitted {
		logger.Info(next.Omitted(name))
	}
	g.Catalog.refreshed(g.Catalog.Snapshot().Catalog, nil) // another mode lists other tools
	if servers := len(change.Added) + len(change.Removed) + len(change.Changed) + len(change.Faulty) + len(change.Omitted); servers+len(applied) > 0 {
		logger.Info(LogApplied,
			"added", change.Added, "removed", change.Removed, "changed", change.Changed, "faulty", change.Faulty, "settings", applied)
	}
	if len(waits) > 0 {
		logger.Warn("the configuration has changed, and some settings keep their old values until weir is restarted", "settings", strings.Join(waits, ", "))
	}
	return nil
}
