package agentserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/child"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/rawjson"
	"go.yaml.in/yaml/v3"
)

// node is a value of the file, with its place.
type node = yaml.Node

// fields say for each key of an object what to do with its value.
type fields map[string]func(n *node, path string)

// maxProblems bounds what is said of one file.
const maxProblems = 50

// decoder reads a tree into a Config and collects what is wrong with it.
type decoder struct {
	file     string
	dir      string
	o        *ConfigOptions
	problems []config.Problem
	names    map[string]int // "tool x" to the line where it stands
}

func (d *decoder) fail(n *node, path, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, config.Problem{File: d.file, Line: n.Line, Column: n.Column, Key: path, Message: fmt.Sprintf(format, args...)})
	}
}

func resolve(n *node) *node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// wrong says that a value has another form than it should.
func (d *decoder) wrong(n *node, path, want string) {
	got := "a list"
	switch {
	case n.Kind == yaml.MappingNode:
		got = "a mapping"
	case isNull(n):
		got = "nothing"
	case n.Kind == yaml.ScalarNode:
		got = strconv.Quote(clip(n.Value))
	}
	if path == "" {
		path = "the file"
	}
	d.fail(n, path, "%s must be %s, not %s", path, want, got)
}

// object hands each value of a mapping to its field. Keys that are not there
// are errors, with the one that was probably meant.
func (d *decoder) object(n *node, path string, known fields) bool {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "a mapping")
		return false
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		field, ok := known[key.Value]
		switch {
		case seen[key.Value]:
			d.fail(key, join(path, key.Value), "%s stands twice", join(path, key.Value))
		case !ok:
			d.unknown(key, path, slices.Sorted(maps.Keys(known)))
		case !isNull(value): // a key with nothing behind it sets nothing
			field(value, join(path, key.Value))
		}
		seen[key.Value] = true
	}
	return true
}

func (d *decoder) unknown(key *node, path string, known []string) {
	where, hint := "", "; known keys: "+strings.Join(known, ", ")
	if path != "" {
		where = " in " + path
	}
	near := config.Nearest(key.Value, known)
	if near == "" {
		near = map[string]string{"schema": "inputSchema", "parameters": "inputSchema", "arguments": "args", "cmd": "command", "exec": "command", "environment": "env", "dir": "cwd", "workdir": "cwd"}[key.Value]
		if !slices.Contains(known, near) {
			near = ""
		}
	}
	if near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	d.fail(key, join(path, key.Value), "unknown key %q%s%s", clip(key.Value), where, hint)
}

func (d *decoder) fields(f fields) func(*node, string) {
	return func(n *node, path string) { d.object(n, path, f) }
}

// each hands on the elements of a list.
func (d *decoder) each(f func(n *node, path string)) func(*node, string) {
	return func(n *node, path string) {
		if n.Kind != yaml.SequenceNode {
			d.wrong(n, path, "a list")
			return
		}
		for i, item := range n.Content {
			f(resolve(item), fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (d *decoder) keep(to **node) func(*node, string) {
	return func(n *node, _ string) { *to = n }
}

// text reads a scalar as the text that stands in the file.
func (d *decoder) text(to *string) func(*node, string) {
	return func(n *node, path string) {
		if n.Kind != yaml.ScalarNode {
			d.wrong(n, path, "a text")
			return
		}
		*to = n.Value
	}
}

func (d *decoder) texts(to *[]string) func(*node, string) {
	return d.each(func(n *node, path string) {
		var text string
		d.text(&text)(n, path)
		*to = append(*to, text)
	})
}

func (d *decoder) flag(to *bool) func(*node, string) {
	return func(n *node, path string) {
		if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
			d.wrong(n, path, "true or false")
			return
		}
		*to = n.Value == "true"
	}
}

func (d *decoder) number(to *int) func(*node, string) {
	return func(n *node, path string) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			d.wrong(n, path, "a whole number")
			return
		}
		*to = v
	}
}

func (d *decoder) count(to *int) func(*node, string) {
	return func(n *node, path string) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < 1 {
			d.wrong(n, path, "a whole number from 1 on")
			return
		}
		*to = v
	}
}

func (d *decoder) millis(to *time.Duration) func(*node, string) {
	return func(n *node, path string) {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || v < 1 || v > int64(365*24*time.Hour/time.Millisecond) {
			d.wrong(n, path, "a number of milliseconds")
			return
		}
		*to = time.Duration(v) * time.Millisecond
	}
}

// bytes reads a size: a number, or one with KB, MB or GB (powers of 1024).
func (d *decoder) bytes(to *int64) func(*node, string) {
	return func(n *node, path string) {
		text, unit := n.Value, int64(1)
		for suffix, factor := range map[string]int64{"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30} {
			if t, ok := strings.CutSuffix(strings.ToUpper(text), suffix); ok {
				text, unit = strings.TrimSpace(t), factor
			}
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || v < 1 || v > (1<<50)/unit {
			d.wrong(n, path, "a size such as 64MB")
			return
		}
		*to = v * unit
	}
}

// folders reads one folder or a list of them.
func (d *decoder) folders(to *[]string) func(*node, string) {
	return func(n *node, path string) {
		var list []string
		if n.Kind == yaml.ScalarNode {
			list = []string{n.Value}
		} else {
			d.texts(&list)(n, path)
		}
		for _, dir := range list {
			*to = append(*to, d.absolute(dir))
		}
	}
}

func (d *decoder) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}

// named checks a name, and that it stands once.
func (d *decoder) named(kind string, n *node, path, name string) bool {
	if name == "" {
		d.fail(n, path, "%s needs a name", path)
		return false
	}
	if kind != "resource" && !validName(name) {
		d.fail(n, path+".name", "%s %q: a name is 1 to 128 letters, digits, - _ or .", kind, clip(name))
		return false
	}
	key := kind + " " + name
	if line, ok := d.names[key]; ok {
		d.fail(n, path+".name", "%s %q is there already, at line %d: rename one of them", kind, name, line)
		return false
	}
	d.names[key] = n.Line
	return true
}

var variable = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// expand replaces ${VAR} and ${env:VAR} by what the environment says, and
// ${VAR:-text} by text where that is nothing.
func (d *decoder) expand(n *node, path, text string) string {
	return variable.ReplaceAllStringFunc(text, func(match string) string {
		parts := variable.FindStringSubmatch(match)
		name := parts[1]
		value, ok := d.o.lookup(name)
		if value == "" && parts[2] != "" {
			return parts[2][2:]
		}
		if !ok {
			d.fail(n, path, "%s: the variable %s is not set in the agent's environment", path, name)
		}
		return value
	})
}

// json returns a value as JSON, keys in their order and numbers as they stand.
func (d *decoder) json(n *node, path string) json.RawMessage {
	out, err := appendJSON(nil, n, 0)
	if err != nil {
		d.fail(n, path, "%s: %v", path, err)
		return nil
	}
	return out
}

// maxDepth bounds nesting.
const maxDepth = 64

func appendJSON(dst []byte, n *node, depth int) ([]byte, error) {
	n = resolve(n)
	if depth > maxDepth || len(dst) > 1<<20 {
		return nil, fmt.Errorf("too deep, or too large")
	}
	var err error
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if seen[key] {
				return nil, fmt.Errorf("the key %q stands twice", clip(key))
			}
			seen[key] = true
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(rawjson.AppendString(dst, key), ':')
			if dst, err = appendJSON(dst, n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	}
	switch n.ShortTag() {
	case "!!null":
		return append(dst, "null"...), nil
	case "!!bool":
		return strconv.AppendBool(dst, strings.EqualFold(n.Value, "true")), nil
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return append(dst, n.Value...), nil
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("the number %s has no form in JSON", clip(n.Value))
		}
		return append(dst, b...), nil
	}
	return rawjson.AppendString(dst, n.Value), nil
}

// clip bounds what a message repeats.
func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

// commandFields decodes the keys that tools, resources and prompts share.
type commandFields struct {
	d     *decoder
	path  string
	at    *node
	args  []string
	cwd   string
	env   map[string]string
	out   int64
	mem   int64
	isSet bool
}

func (d *decoder) newCommand() *commandFields {
	return &commandFields{d: d, env: map[string]string{}}
}

// fields adds the keys to those of the entry.
func (c *commandFields) fields(f fields) {
	d := c.d
	f["command"] = func(n *node, path string) {
		c.at, c.isSet = n, true
		if n.Kind != yaml.SequenceNode {
			d.text(&c.path)(n, path)
			return
		}
		// The public implementation takes program and arguments in one list.
		var all []string
		d.texts(&all)(n, path)
		if len(all) > 0 {
			c.path, c.args = all[0], append(all[1:], c.args...)
		}
	}
	f["args"] = func(n *node, path string) { d.texts(&c.args)(n, path) }
	f["cwd"] = func(n *node, path string) {
		d.text(&c.cwd)(n, path)
		c.cwd = d.expand(n, path, c.cwd)
	}
	f["env"] = func(n *node, path string) {
		if n.Kind != yaml.MappingNode {
			d.wrong(n, path, "a mapping")
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, resolve(n.Content[i+1])
			if value.Kind != yaml.ScalarNode || key == "" || strings.ContainsAny(key, "=\x00") {
				d.wrong(value, join(path, key), "a text")
				continue
			}
			c.env[key] = d.expand(value, join(path, key), value.Value)
		}
	}
	f["maxOutputBytes"] = d.bytes(&c.out)
	f["maxMemoryBytes"] = d.bytes(&c.mem)
}

// finish makes the command, or says why it cannot be one.
func (c *commandFields) finish(n *node, path, who string) runner {
	d := c.d
	if c.at == nil || c.path == "" {
		if c.at == nil || !d.has(path+".command") {
			d.fail(n, path, "%s needs a command: the program to start, its arguments in args", who)
		}
		return nil
	}
	cmd := &command{path: c.path, args: c.args, maxOutput: c.out, maxMemory: c.mem, dir: d.dir}
	switch {
	case c.cwd == "workspace":
		if d.o.Workspace != "" {
			cmd.dir = d.o.Workspace
		}
	case c.cwd != "":
		cmd.dir = d.absolute(c.cwd)
	}
	cmd.env = cleanEnv(d.o, c.env)
	cmd.secrets = secretsOf(c.args, c.env)
	if strings.ContainsRune(c.path, filepath.Separator) {
		cmd.path = d.absolute(c.path)
	}
	cmd.home = d.dir
	if _, err := cmd.find(); err != nil && strings.ContainsAny(c.path, " \t") {
		program, rest := splitWords(c.path)
		d.fail(c.at, path+".command", "%s: the command %q holds arguments; write command: %s, args: %s", who, clip(c.path), quoteWord(program), quoteWords(append(rest, c.args...)))
		return nil
	}
	if c.mem > 0 && !child.CanLimitMemory {
		d.fail(c.at, path+".maxMemoryBytes", "%s: memory cannot be limited on this system; remove maxMemoryBytes", who)
		return nil
	}
	return cmd
}

// has reports whether something was said of a path.
func (d *decoder) has(path string) bool {
	return slices.ContainsFunc(d.problems, func(p config.Problem) bool { return p.Key == path })
}

// splitWords splits a command line as a shell would, without its expansions.
func splitWords(s string) (program string, rest []string) {
	var words []string
	var word []rune
	quote, open := rune(0), false
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if open {
				words = append(words, string(word))
			}
			word, open = nil, false
		default:
			word, open = append(word, r), true
		}
	}
	if open {
		words = append(words, string(word))
	}
	if len(words) == 0 {
		return "", nil
	}
	return words[0], words[1:]
}

func quoteWord(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always can be
	return strings.TrimSpace(b.String())
}

func quoteWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteWord(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
