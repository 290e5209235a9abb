package agentserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/config"
)

// Config is what an agent's configuration file says. docs/agents.md has the
// keys. A Config is read-only once it was parsed.
type Config struct {
	// Name, Version and Instructions introduce the agent; empty where the file
	// does not say.
	Name, Version, Instructions string
	// Port, Concurrency, Timeout and MaxBody, in bytes, are zero where the file
	// does not say.
	Port, Concurrency int
	Timeout           time.Duration
	MaxBody           int64
	Queue             QueueConfig
	// Skills are folders with *skill.md files, absolute.
	Skills    []string
	Tools     []Tool
	Resources []Resource
	Prompts   []Prompt
	// Notes are for the log: what was read in another way than it stands there.
	Notes []string
}

// QueueConfig is the file's queue. Zero values stand for the defaults of
// package taskqueue.
type QueueConfig struct {
	Max         int
	Store       string // "memory", or "file:" and a folder
	RetainCount int
	RetainBytes int64
	RetainAge   time.Duration
	LogBytes    int
}

// ConfigOptions is what reading a configuration needs from the world. The zero
// value knows nothing: no variable is set.
type ConfigOptions struct {
	// LookupEnv reads a variable of the environment, for ${VAR} in env and cwd,
	// and PATH, HOME and LANG of the commands. os.LookupEnv has the shape.
	LookupEnv func(name string) (value string, ok bool)
	// Workspace is the folder that "cwd": "workspace" means; the file's own
	// where empty.
	Workspace string
}

func (o *ConfigOptions) lookup(name string) (string, bool) {
	if o.LookupEnv == nil {
		return "", false
	}
	return o.LookupEnv(name)
}

// LoadConfig reads a configuration file, and the skills it names. The error is
// a *config.Error with every problem of the file and its place.
func LoadConfig(path string, o ConfigOptions) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	c, err := ParseConfig(path, data, o)
	if err != nil {
		return nil, err
	}
	if err := c.readSkills(&o); err != nil {
		return nil, err
	}
	return c, nil
}

// ParseConfig reads the text of a configuration file. Relative paths are
// relative to the folder of path. Skills are not read.
func ParseConfig(path string, data []byte, o ConfigOptions) (*Config, error) {
	root, err := config.Tree(path, data)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	d := &decoder{file: path, dir: dir, o: &o, names: map[string]int{}}
	c := &Config{}
	if root != nil {
		d.config(root, c)
	}
	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, func(a, b config.Problem) int { return a.Line - b.Line })
		return nil, &config.Error{Problems: d.problems}
	}
	return c, nil
}

// config decodes the top level.
func (d *decoder) config(n *node, c *Config) {
	var max, count, tail int
	var store, retain string
	var bytes int64
	d.object(n, "", fields{
		"$schema":          func(*node, string) {},
		"name":             d.text(&c.Name),
		"version":          d.text(&c.Version),
		"instructions":     d.text(&c.Instructions),
		"port":             d.count(&c.Port),
		"concurrency":      d.count(&c.Concurrency),
		"maxParallelTasks": d.count(&c.Concurrency), // the public implementation's name for it
		"taskLogTailBytes": d.count(&tail),          // likewise
		"timeoutMs":        d.millis(&c.Timeout),
		"timeout":          d.millis(&c.Timeout), // as in the default configuration of agent servers
		"maxRequestSize":   d.bytes(&c.MaxBody),
		"queue": d.fields(fields{
			"max":          d.count(&max),
			"store":        d.text(&store),
			"results":      d.count(&count),
			"resultBytes":  d.bytes(&bytes),
			"retain":       d.text(&retain),
			"logTailBytes": d.count(&tail),
		}),
		"skills":    d.folders(&c.Skills),
		"tools":     d.each(func(n *node, path string) { d.tool(n, path, c) }),
		"resources": d.each(func(n *node, path string) { d.resource(n, path, c) }),
		"prompts":   d.each(func(n *node, path string) { d.prompt(n, path, c) }),
	})
	if c.Port > 65535 {
		d.fail(n, "port", "port must be from 1 to 65535, not %d", c.Port)
	}
	if c.Name != "" && !validName(c.Name) {
		d.fail(n, "name", "name %q must be 1 to 128 letters, digits, - _ or .: it stands in the URL /mcps/{name}/mcp", clip(c.Name))
	}
	c.Queue = QueueConfig{Max: max, RetainCount: count, RetainBytes: bytes, LogBytes: tail}
	if retain != "" {
		age, err := time.ParseDuration(retain)
		if err != nil || age <= 0 {
			d.fail(n, "queue.retain", "queue.retain must be a time such as 1h or 30m, not %q", clip(retain))
		}
		c.Queue.RetainAge = age
	}
	switch folder, ok := strings.CutPrefix(store, "file:"); {
	case store == "" || store == "memory":
		c.Queue.Store = store
	case ok && folder != "":
		c.Queue.Store = "file:" + d.absolute(folder)
	default:
		d.fail(n, "queue.store", `queue.store must be "memory" or "file:FOLDER", not %q`, clip(store))
	}
}

// tool decodes an entry of tools.
func (d *decoder) tool(n *node, path string, c *Config) {
	var t Tool
	cmd := d.newCommand()
	var input, schema, output, annotations *node
	asyncTimeout := time.Duration(0)
	f := fields{
		"name":         d.text(&t.Name),
		"title":        d.text(&t.Title),
		"description":  d.text(&t.Description),
		"async":        d.flag(&t.Async),
		"priority":     d.number(&t.Priority),
		"timeoutMs":    d.millis(&t.Timeout),
		"timeout":      d.millis(&asyncTimeout), // the public implementation's, for async tools
		"inputSchema":  d.keep(&schema),
		"input":        d.keep(&input), // the public implementation's older name
		"outputSchema": d.keep(&output),
		"annotations":  d.keep(&annotations),
	}
	cmd.fields(f)
	if !d.object(n, path, f) {
		return
	}
	if t.Timeout == 0 && t.Async {
		t.Timeout = asyncTimeout
	}
	if !d.named("tool", n, path, t.Name) {
		return
	}
	who := fmt.Sprintf("tool %q", t.Name)
	t.source = fmt.Sprintf("%s:%d", d.file, n.Line)
	t.run = cmd.finish(n, path, who)
	if schema == nil {
		schema = input
	}
	t.InputSchema = d.inputSchema(schema, path+".inputSchema", who, c)
	if output != nil {
		t.OutputSchema = d.json(output, path+".outputSchema")
	}
	if annotations != nil {
		t.Annotations = d.json(annotations, path+".annotations")
	}
	if t.run != nil {
		c.Tools = append(c.Tools, t)
	}
}

// inputSchema reads a schema as JSON Schema, or as the public implementation's
// map of fields.
func (d *decoder) inputSchema(n *node, path, who string, c *Config) json.RawMessage {
	if n == nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	raw := d.json(n, path)
	if raw == nil {
		return nil
	}
	if !isFieldMap(raw) {
		c.Notes = append(c.Notes, who+": inputSchema read as JSON Schema")
		return raw
	}
	schema, err := translateFields(raw)
	if err != nil {
		d.fail(n, path, "%s: %v", path, err)
		return nil
	}
	c.Notes = append(c.Notes, who+": inputSchema read as a map of fields, and translated to JSON Schema")
	return schema
}

// resource decodes an entry of resources.
func (d *decoder) resource(n *node, path string, c *Config) {
	var r Resource
	cmd := d.newCommand()
	f := fields{
		"name":        d.text(&r.Name),
		"title":       d.text(&r.Title),
		"description": d.text(&r.Description),
		"uri":         d.text(&r.URI),
		"template":    d.text(&r.Template),
		"uriTemplate": d.text(&r.Template),
		"mimeType":    d.text(&r.MIMEType),
		"timeoutMs":   d.millis(&r.Timeout),
	}
	cmd.fields(f)
	if !d.object(n, path, f) || !d.named("resource", n, path, r.Name) {
		return
	}
	who := fmt.Sprintf("resource %q", r.Name)
	if (r.URI == "") == (r.Template == "") {
		d.fail(n, path, "%s needs either uri or template: uri for one resource, template (such as doc://{id}) for many", who)
		return
	}
	r.source = fmt.Sprintf("%s:%d", d.file, n.Line)
	if err := r.check(); err != nil {
		d.fail(n, path, "%v", err)
		return
	}
	if r.run = cmd.finish(n, path, who); r.run != nil {
		c.Resources = append(c.Resources, r)
	}
}

// prompt decodes an entry of prompts.
func (d *decoder) prompt(n *node, path string, c *Config) {
	var p Prompt
	cmd := d.newCommand()
	declared := false
	f := fields{
		"name":        d.text(&p.Name),
		"title":       d.text(&p.Title),
		"description": d.text(&p.Description),
		"timeoutMs":   d.millis(&p.Timeout),
		"arguments": func(n *node, path string) {
			declared = true
			d.each(func(n *node, path string) {
				var a PromptArgument
				d.object(n, path, fields{"name": d.text(&a.Name), "title": d.text(&a.Title), "description": d.text(&a.Description), "required": d.flag(&a.Required)})
				if a.Name == "" {
					d.fail(n, path, "%s needs a name", path)
				}
				p.Arguments = append(p.Arguments, a)
			})(n, path)
		},
		"messages": d.each(func(n *node, path string) { d.message(n, path, &p, c) }),
	}
	cmd.fields(f)
	if !d.object(n, path, f) || !d.named("prompt", n, path, p.Name) {
		return
	}
	who := fmt.Sprintf("prompt %q", p.Name)
	p.source = fmt.Sprintf("%s:%d", d.file, n.Line)
	switch {
	case len(p.Messages) > 0 && cmd.path != "":
		d.fail(n, path, "%s has both messages and a command: keep one of them", who)
		return
	case len(p.Messages) > 0:
	case cmd.path == "":
		d.fail(n, path, "%s needs messages, or a command that prints them", who)
		return
	default:
		if p.run = cmd.finish(n, path, who); p.run == nil {
			return
		}
	}
	if !declared {
		p.inferArguments()
	}
	c.Prompts = append(c.Prompts, p)
}

// message decodes a message of a prompt. Its content is a text, or an MCP
// content block.
func (d *decoder) message(n *node, path string, p *Prompt, c *Config) {
	var m PromptMessage
	if !d.object(n, path, fields{
		"role": d.text(&m.Role),
		"content": func(n *node, path string) {
			if raw := d.json(n, path); raw != nil {
				m.Content = textContent(raw)
			}
		},
	}) {
		return
	}
	switch m.Role {
	case "user", "assistant":
	case "system":
		m.Role = "user"
		c.Notes = append(c.Notes, fmt.Sprintf("%s:%d: %s has the role system, which MCP does not know; it is sent as user", d.file, n.Line, path))
	default:
		d.fail(n, path+".role", `%s.role must be "user" or "assistant", not %q`, path, clip(m.Role))
	}
	if m.Content == nil {
		d.fail(n, path, "%s needs content: a text, or a content block such as {type: text, text: …}", path)
	}
	p.Messages = append(p.Messages, m)
}

// validName reports whether a name may be an agent's, a tool's or the like.
func validName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
