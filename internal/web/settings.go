package web

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/web/api"
)

// Settings returns the configuration in effect, for the API and for weir config show: the keys that
// start with one of keys, or all keys if keys is empty. If set is true, it has only the keys that the file
// or a flag sets.
func Settings(c *config.Config, keys []string, set bool) []api.Setting {
	out := []api.Setting{}
	file := "the configuration" // of a program that has made it without a file
	if c.Path() != "" {
		file = filepath.Base(c.Path())
	}
	for _, s := range c.Settings() {
		begins := func(key string) bool { return strings.HasPrefix(s.Key, key) }
		if len(keys) > 0 && !slices.ContainsFunc(keys, begins) || set && s.Origin == config.OriginDefault {
			continue
		}
		out = append(out, api.Setting{Key: s.Key, Value: s.Value, Origin: string(s.Origin), Source: s.Source(file), Line: s.Line, From: s.From})
	}
	return out
}
