package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unknown reports a key that is none of weir's. In a foreign file it is another
// client's and a warning, unless it would leave out what keeps strangers or calls
// away: within a safety section, or where the name of one was probably meant, it is
// an error in every file.
func (d *decoder) unknown(p pair, path string, t reflect.Type) {
	key := p.key.Value
	here := join(path, key)
	near := nearSafety(key, fieldsOf(t))
	if near == "" && path == "" {
		near = shortSafety(p, fieldsOf(t))
	}
	if near != "" && d.foreign {
		d.fail(p.key, here, "unknown key %q%s; did you mean %q? Without it weir would run less safely than this file may ask for, so it is an error; write %s, or remove the key", clip(key), in(path), near, near)
		return
	}
	if d.closed > 0 {
		d.fail(p.key, here, "unknown key %q%s%s", clip(key), in(path), d.suggestStrict(key, t))
		return
	}
	hint := d.suggest(key, t)
	if path == "" && p.value.Kind == yaml.MappingNode && !d.foreign && looksLikeServer(keysIn(p.value)) {
		hint = "; it looks like a server: put it under mcpServers"
	}
	d.strict(p.key, here, "unknown key %q%s%s", clip(key), in(path), hint)
}

// suggest names the key that was probably meant.
func (d *decoder) suggest(key string, t reflect.Type) string {
	if near := nearest(key, keysOf(t)); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if synonym := synonymOf(key); synonym != "" && slices.Contains(keysOf(t), synonym) {
		return fmt.Sprintf("; did you mean %q?", synonym)
	}
	if d.foreign {
		return "; it is ignored"
	}
	return d.suggestStrict(key, t)
}

// suggestStrict is suggest where the key is an error in a foreign file, too.
func (d *decoder) suggestStrict(key string, t reflect.Type) string {
	if near := nearest(key, keysOf(t)); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if where := whereIs(key); where != "" {
		return fmt.Sprintf("; it belongs at %s", where)
	}
	known := slices.DeleteFunc(keysOf(t), func(k string) bool { return k == "$schema" })
	return fmt.Sprintf("; known keys: %s", strings.Join(known, ", "))
}

// synonymOf gives weir's name for what other programs call something else.
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

// nearSafety returns the name of a safety key that key was probably meant to be: the
// same except for case, hyphens, underscores and a plural, or one mistake away where
// the name is long enough for that to mean anything.
func nearSafety(key string, rows []field) string {
	const long = 4
	flat := singular(flatten(key))
	for _, f := range rows {
		name := singular(flatten(f.key))
		if f.safety && (flat == name || len(name) >= long && len(flat) >= long && len(flat) <= len(name)+1 && distance(flat, name) == 1) {
			return f.key
		}
	}
	return ""
}

// shortSafety returns the name of a safety section that is too short for nearSafety
// and that the pair was probably meant to be: its key is one mistake away, and its
// value is a mapping with a key that the section has.
func shortSafety(p pair, rows []field) string {
	flat := flatten(p.key.Value)
	for _, f := range rows {
		if !f.safety || kindOf(f) != kindObject || len(f.key) > 3 || len(flat) > len(f.key)+1 || distance(flat, f.key) != 1 {
			continue
		}
		for _, key := range keysOf(f.typ) {
			if valueAt(p.value, key) != nil {
				return f.key
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
