package main

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/config"
)

// watch applies changes of the configuration until ctx ends.
func (a *app) watch(ctx context.Context, c *config.Config, opts config.Options, e *engine, f face, logger *logging) {
	err := config.Watch(ctx, c, opts, func(next *config.Config, warnings []config.Warning, err error) {
		for _, w := range warnings {
			logger.Warn("configuration", "at", w.String())
		}
		if err != nil {
			var broken *config.Error
			if !errors.As(err, &broken) {
				logger.Error("the configuration cannot be read; the old one stays", "err", err)
				return
			}
			for _, p := range broken.Problems {
				logger.Error("the new configuration is not used; the old one stays", "problem", p.String())
			}
			return
		}
		a.reload(c, next, e, f, logger)
		c = next
	})
	if err != nil {
		logger.Warn("changes of the configuration are not seen any more; restart weir to apply them", "err", err)
	}
}

// needRestart are the keys whose values are read once: what they configure is made
// when weir starts.
var needRestart = []string{"listen", "schema_limits", "search", "hub", "hubs", "events"}

// onlyAfterRestart reports whether hub has changed beyond who may connect.
func onlyAfterRestart(old, next config.Hub) bool {
	old.Tokens, old.Computers, next.Tokens, next.Computers = nil, nil, nil, nil
	return !reflect.DeepEqual(old, next)
}

// reload applies what is different in next.
func (a *app) reload(c, next *config.Config, e *engine, f face, logger *logging) {
	change := config.Diff(c, next)
	if change.Empty() {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(change.Other), func(key string) bool { return !slices.Contains(needRestart, key) })
	kept = slices.DeleteFunc(kept, func(key string) bool { return key == "hub" && !onlyAfterRestart(c.Hub, next.Hub) })
	if old, next := c.Artifacts, next.Artifacts; next.TTL != old.TTL || next.MaxBytes != old.MaxBytes || next.MaxCount != old.MaxCount ||
		next.Dir != old.Dir || next.MemoryBytes != old.MemoryBytes || next.DiskBytes != old.DiskBytes {
		kept = append(kept, "artifacts.dir, ttl, max_bytes, max_count, memory_bytes and disk_bytes")
	}
	if next.HTTP.MaxBodyBytes != c.HTTP.MaxBodyBytes || next.HTTP.SessionIdle != c.HTTP.SessionIdle || next.HTTP.KeepAlive != c.HTTP.KeepAlive {
		kept = append(kept, "http.max_body_bytes, session_idle and keep_alive")
	}
	if next.Agents.Routing != c.Agents.Routing || next.Agents.Lease != c.Agents.Lease {
		kept = append(kept, "agents.routing and agents.lease")
	}
	if next.Log.Format != logger.format {
		kept = append(kept, "log.format")
	}
	logger.set(next.Log)
	logger.hide(next)
	e.apply(next)
	f.apply(c, next)
	e.offices.apply(next, e)
	e.refreshed(e.Snapshot().Catalog, nil) // another mode lists other tools
	logger.Info("the configuration has changed and is applied",
		"added", change.Added, "removed", change.Removed, "changed", change.Changed, "faulty", change.Faulty, "settings", change.Other)
	if len(kept) > 0 {
		logger.Warn("some settings keep their old values until weir is restarted", "settings", strings.Join(kept, ", "))
	}
}
