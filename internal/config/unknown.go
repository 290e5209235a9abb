package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/text"
)

// unknown reports a key that weir does not have. In a foreign file it may be another client's, so
// it is a warning. In every file it is an error within a safety section, or if it looks like a
// misspelt safety key: to ignore it would drop a protection.
func (d *decoder) unknown(p strict.Pair, path string, t reflect.Type) {
	key := p.Key.Value
	if key == geminiTrust {
		d.Warn(p.Key, strict.Join(path, "trust"), "unknown key \"trust\"%s; it is ignored", strict.In(path))
		return
	}
	here := strict.Join(path, key)
	near := nearSafety(key, strict.Fields(t))
	if near == "" && path == "" {
		near = shortSafety(p, strict.Fields(t))
	}
	if near != "" && d.foreign {
		d.Fail(p.Key, here, "unknown key %q%s; did you mean %q? Without it weir would run less safely than this file may ask for, so it is an error; write %s, or remove the key", strict.Clip(key), strict.In(path), near, near)
		return
	}
	if why := removedKeys[here]; why != "" {
		d.Fail(p.Key, here, "%s is gone: %s; remove it", here, why)
		return
	}
	if d.InSafety() {
		d.Fail(p.Key, here, "unknown key %q%s%s", strict.Clip(key), strict.In(path), suggestStrict(d.Decoder, key, t))
		return
	}
	hint := d.suggest(key, t)
	if path == "" && p.Value.Kind == yaml.MappingNode && !d.foreign && looksLikeServer(keysIn(p.Value)) {
		hint = "; it looks like a server: put it under mcpServers"
	}
	d.Strict(p.Key, here, "unknown key %q%s%s", strict.Clip(key), strict.In(path), hint)
}

// removedKeys are keys of earlier builds, with why nothing takes their place.
var removedKeys = map[string]string{
	"store.listen":    "gateways join at the NATS servers (docs/cluster.md)",
	"cluster.members": "the NATS servers know one another (docs/cluster.md)",
}

// suggest returns the key that was probably meant.
func (d *decoder) suggest(key string, t reflect.Type) string {
	if near := strict.Nearest(key, strict.Keys(t)); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if synonym := synonymOf(key); synonym != "" && slices.Contains(strict.Keys(t), synonym) {
		return fmt.Sprintf("; did you mean %q?", synonym)
	}
	if d.foreign {
		return "; it is ignored"
	}
	return suggestStrict(d.Decoder, key, t)
}

// suggestStrict is suggest for a key that is an error in a foreign file as well.
func suggestStrict(d *strict.Decoder, key string, t reflect.Type) string {
	if near := strict.Nearest(key, strict.Keys(t)); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if where := whereIs(key); where != "" {
		return fmt.Sprintf("; it belongs at %s", where)
	}
	known := slices.DeleteFunc(strict.Keys(t), func(k string) bool { return k == "$schema" })
	return fmt.Sprintf("; known keys: %s", strings.Join(known, ", "))
}

// synonymOf returns weir's name for another program's key.
func synonymOf(key string) string {
	switch key {
	case "servers", "upstreams", "mcp_servers":
		return "mcpServers"
	case "transport", "transportType":
		return "type"
	case "serverUrl", "httpUrl", "endpoint", "uri":
		return "url"
	case "http_headers":
		return "headers"
	case "environment":
		return "env"
	case "workingDirectory", "working_dir", "dir":
		return "cwd"
	case "allowedTools", "allowed_tools", "enabled_tools", "enabledTools":
		return "include_tools"
	case "forbidden_tools", "disabled_tools", "disabledTools":
		return "exclude_tools"
	case "address", "addr", "bind", "port", "host":
		return "listen"
	}
	return ""
}

// nearSafety returns the name of the safety key that key was probably meant to be. It ignores case,
// hyphens, underscores and a plural. In long names it also allows one mistake.
func nearSafety(key string, rows []strict.Field) string {
	const long = 4
	flat := singular(strict.Flatten(key))
	for _, f := range rows {
		name := singular(strict.Flatten(f.Key))
		if f.Safety && (flat == name || len(name) >= long && len(flat) >= long && len(flat) <= len(name)+1 && text.Distance(flat, name) == 1) {
			return f.Key
		}
	}
	return ""
}

// shortSafety returns the safety section that the pair was probably meant to be, of the names that
// are too short for nearSafety. The key is one mistake away, and the value is a mapping with a key
// of that section.
func shortSafety(p strict.Pair, rows []strict.Field) string {
	flat := strict.Flatten(p.Key.Value)
	for _, f := range rows {
		if !f.Safety || f.Kind() != strict.KindObject || len(f.Key) > 3 || len(flat) > len(f.Key)+1 || text.Distance(flat, f.Key) != 1 {
			continue
		}
		for _, key := range strict.Keys(f.Type) {
			if valueAt(p.Value, key) != nil {
				return f.Key
			}
		}
	}
	return ""
}

func singular(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "ies") {
		return strings.TrimSuffix(word, "ies") + "y"
	}
	return strings.TrimSuffix(word, "s")
}

// whereIs returns the path of the only key with this name elsewhere in the table, or "". An error
// sends the user of a misplaced key there.
func whereIs(key string) string {
	var found []string
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for _, f := range strict.Fields(t) {
			here := strict.Join(path, f.Key)
			if f.Key == key {
				found = append(found, here)
			}
			switch f.Kind() {
			case strict.KindObject:
				walk(f.Type, here)
			case strict.KindObjects:
				walk(f.Object(), here+"[]")
			case strict.KindNamed:
				walk(f.Object(), here+".NAME")
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	// A top-level key is the plainest answer. Otherwise guess only if there is one choice.
	if slices.Contains(found, key) {
		return key
	}
	if len(found) == 1 {
		return found[0]
	}
	return ""
}
