package app

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
)

// A Face serves a gateway to clients. Reload updates it.
type Face interface {
	// Apply applies a configuration that the Engine has applied already.
	Apply(old, next *config.Config)
}

// Follow applies changes of the configuration file until ctx ends.
func (e *Engine) Follow(ctx context.Context, opts config.Options, face Face, log *Log) {
	err := config.Watch(ctx, e.Config(), opts, func(next *config.Config, warnings []config.Warning, err error) {
		e.Reread(next, warnings, err, face, log)
	})
	if err != nil {
		log.Warn("changes of the configuration are not seen any more; restart weir to apply them", "err", err)
	}
}

// Reread applies a configuration file that was read again, or logs why it cannot be read, and tells
// Reloads.
func (e *Engine) Reread(next *config.Config, warnings []config.Warning, err error, face Face, log *Log) {
	for _, w := range warnings {
		log.Warn("configuration", "at", w.String())
	}
	if err != nil {
		defer e.Reloads.read(nil, err)
		var broken *config.Error
		if !errors.As(err, &broken) {
			log.Error("the configuration cannot be read; the old one stays", "err", err)
			return
		}
		for _, p := range broken.Problems {
			log.Error("the new configuration is not used; the old one stays", "problem", p.String())
		}
		return
	}
	e.Reload(next, face, log)
	e.Reloads.read(next, nil)
}

// A setting divides the value of a top-level key for a reload.
type setting struct {
	live any    // the part that applies at once; nil if the whole key needs a restart
	late any    // the part that needs a restart, because it configures objects made at the start
	name string // name of the late part in messages
}

// settingOf divides a key's value into the part that applies at once and the part that needs a
// restart. ok is false if everything applies at once.
func settingOf(key string, c *config.Config) (s setting, ok bool) {
	switch key {
	case "listen", "tls", "limits", "schema_limits", "search", "hubs", "events", "credentials", "audit", "store", "cluster":
		return setting{late: true, name: key}, true
	case "hub":
		late := c.Hub
		late.Tokens, late.Issuers, late.Computers = nil, nil, nil
		return setting{[]any{c.Hub.Tokens, c.Hub.Issuers, c.Hub.Computers}, late, "hub, except its tokens, issuers and computers"}, true
	case "artifacts":
		late := c.Artifacts
		late.TokenTTL, late.Redact = 0, false
		return setting{[]any{c.Artifacts.TokenTTL, c.Artifacts.Redact}, late, "artifacts.dir, ttl, max_bytes, max_count, memory_bytes, disk_bytes and backup"}, true
	case "http":
		late := c.HTTP
		late.AllowedHosts, late.AllowedOrigins = nil, nil
		return setting{[]any{c.HTTP.AllowedHosts, c.HTTP.AllowedOrigins}, late, "http.max_body_bytes, max_sessions, session_idle and keep_alive"}, true
	case "agents":
		a := c.Agents
		return setting{[]any{a.Invocation, a.Limits, a.PerAgent}, []any{a.Routing, a.Lease, a.Max}, "agents.routing, agents.lease and agents.max"}, true
	case "strict":
		return setting{c.Strict, c.Strict, "strict, as far as lists and paths of the catalog"}, true
	case "log":
		return setting{[]any{c.Log.Level, c.Log.Unredacted}, c.Log.Format, "log.format"}, true
	}
	return setting{}, false
}

// divided splits the changed keys into those that apply at once and those that need a restart.
func divided(changed []string, old, next *config.Config) (applied, waits []string) {
	for _, key := range changed {
		before, split := settingOf(key, old)
		after, _ := settingOf(key, next)
		if !split || !reflect.DeepEqual(before.live, after.live) {
			applied = append(applied, key)
		}
		if split && (before.live == nil || !reflect.DeepEqual(before.late, after.late)) {
			waits = append(waits, before.name)
		}
	}
	return applied, waits
}

// LogApplied is the message of the log record that tells of an applied configuration.
const LogApplied = "the configuration has changed and is applied"

// Reload applies the changes in next and logs which settings need a restart. It restarts the
// servers whose entries changed; the others continue. Do not run two Reloads at the same time.
func (e *Engine) Reload(next *config.Config, face Face, logger *Log) {
	c := e.Config()
	change := config.Diff(c, next)
	if change.Empty() {
		return
	}
	applied, waits := divided(change.Other, c, next)
	logger.Set(next.Log)
	logger.hide(next)
	e.Auditor.configured(next, slices.Concat(change.Added, change.Removed, change.Changed, change.Other))
	e.apply(next)
	face.Apply(c, next)
	e.Offices.apply(next, e)
	for _, name := range change.Omitted {
		logger.Info(next.Omitted(name))
	}
	e.refreshed(e.Snapshot().Catalog, nil) // another mode lists other tools
	if servers := len(change.Added) + len(change.Removed) + len(change.Changed) + len(change.Faulty) + len(change.Omitted); servers+len(applied) > 0 {
		logger.Info(LogApplied,
			"added", change.Added, "removed", change.Removed, "changed", change.Changed, "faulty", change.Faulty, "settings", applied)
	}
	if len(waits) > 0 {
		logger.Warn("the configuration has changed, and some settings keep their old values until weir is restarted", "settings", strings.Join(waits, ", "))
	}
}
