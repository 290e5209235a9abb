package agentserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// Config is an agent's configuration file. docs/agents.md has the keys. A parsed Config is
// read-only.
type Config struct {
	// Name, Version and Instructions introduce the agent; empty if the file has none.
	Name, Version, Instructions string
	// Port, Concurrency, Timeout and MaxBody, in bytes, are zero if the file has none.
	Port, Concurrency int
	Timeout           time.Duration
	MaxBody           int64
	Queue             QueueConfig
	// Skills are folders with *skill.md files, absolute.
	Skills    []string
	Tools     []Tool
	Resources []Resource
	Prompts   []Prompt
	// Notes are for the log: values that were interpreted, not read literally.
	Notes []string
	// Warnings are for the log: places of the file that may mean something else than they say.
	Warnings []string
}

// QueueConfig is the queue of the file. Zero values stand for these defaults: 1,024 waiting tasks,
// 1,000 ended ones in 64 MB for an hour, and 16 KB of the log of each.
type QueueConfig struct {
	Max   int
	Store string // "memory", "file:" and a folder, or "nats:" URLs
	// Group is the queue that replicas share in a NATS server; only with such a store. Creds, CA,
	// Cert and Key are files for the connection to it; empty if the file has none.
	Group, Creds, CA, Cert, Key string
	RetainCount                 int
	RetainBytes                 int64
	RetainAge                   time.Duration
	LogBytes                    int
}

// ConfigOptions gives the reader of a configuration access to the environment. With the zero value
// no variable is set.
type ConfigOptions struct {
	// LookupEnv reads a variable of the environment, as os.LookupEnv does. It is used for ${VAR} in
	// env and cwd, and for PATH, HOME and LANG of the commands.
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
// has a line for every problem of the file, with its place.
func LoadConfig(path string, o ConfigOptions) (*Config, error) {
	data, err := place.ReadFile(path)
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
	root, err := strict.Read(path, data)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	d := newDecoder(path, dir, &o, false)
	c := &Config{}
	if root != nil {
		d.config(root, c)
	}
	if problems := d.Problems(); len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b strict.Problem) int { return a.Line - b.Line })
		return nil, &strict.Error{Problems: problems[:min(len(problems), maxProblems)]}
	}
	for _, w := range d.Warnings() {
		c.Warnings = append(c.Warnings, w.String())
	}
	return c, nil
}

// maxProblems bounds the reported problems of one file.
const maxProblems = 50

// config reads the file.
func (d *decoder) config(root *strict.Node, c *Config) {
	var f fileConfig
	if !d.Decode(root, "", &f) {
		return
	}
	*c = Config{
		Name: f.Name, Version: f.Version, Instructions: f.Instructions, Port: f.Port, Concurrency: cmp.Or(f.Concurrency, f.MaxParallel),
		Timeout: time.Duration(cmp.Or(f.TimeoutMs, f.Timeout)), MaxBody: int64(f.MaxBody),
		Queue: QueueConfig{Max: f.Queue.Max, RetainCount: f.Queue.Results, RetainBytes: int64(f.Queue.ResultBytes), LogBytes: cmp.Or(f.Queue.LogTail, f.TaskLogTail)},
	}
	for _, dir := range f.Skills {
		c.Skills = append(c.Skills, d.absolute(dir))
	}
	if c.Port > 65535 {
		d.Fail(d.At("port"), "port", "port must be from 1 to 65535, not %d", c.Port)
	}
	if c.Name != "" && !validName(c.Name) {
		d.Fail(d.At("name"), "name", "name %q must be 1 to 128 letters, digits, - _ or .: it stands in the URL /mcps/{name}/mcp", clip(c.Name))
	}
	if retain := f.Queue.Retain; retain != "" {
		age, err := time.ParseDuration(retain)
		if err != nil || age <= 0 {
			d.Fail(d.At("queue.retain"), "queue.retain", "queue.retain must be a time such as 1h or 30m, not %q", clip(retain))
		}
		c.Queue.RetainAge = age
	}
	switch folder, ok := strings.CutPrefix(f.Queue.Store, "file:"); {
	case f.Queue.Store == "" || f.Queue.Store == "memory":
		c.Queue.Store = f.Queue.Store
	case ok && folder != "":
		c.Queue.Store = "file:" + d.absolute(folder)
	case sharedStore(f.Queue.Store):
		c.Queue.Store = f.Queue.Store
	default:
		d.Fail(d.At("queue.store"), "queue.store", `queue.store must be "memory", "file:FOLDER" or "nats://HOST", not %q`, clip(withoutUser(f.Queue.Store)))
	}
	d.shared(&f, c)
	for i := range f.Tools {
		d.tool(&f.Tools[i], c)
	}
	for i := range f.Resources {
		d.resource(&f.Resources[i], c)
	}
	for i := range f.Prompts {
		d.prompt(&f.Prompts[i], c)
	}
}

// sharedStore reports whether a store is one that replicas share: NATS servers.
func sharedStore(text string) bool {
	return strings.HasPrefix(text, "nats://") || strings.HasPrefix(text, "tls://")
}

// withoutUser cuts out a possible password: all before the last @.
func withoutUser(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// shared reads the keys of a queue that replicas share.
func (d *decoder) shared(f *fileConfig, c *Config) {
	q := &f.Queue
	c.Queue.Group = q.Group
	for _, file := range []struct {
		key, path string
		to        *string
	}{{"creds", q.Creds, &c.Queue.Creds}, {"ca", q.CA, &c.Queue.CA}, {"cert", q.Cert, &c.Queue.Cert}, {"key", q.Key, &c.Queue.Key}} {
		if file.path == "" {
			continue
		}
		if *file.to = d.absolute(file.path); !sharedStore(q.Store) {
			d.Fail(d.At("queue."+file.key), "queue."+file.key, `queue.%s is for the connection to NATS: set queue.store to "nats://HOST"`, file.key)
		}
	}
	switch {
	case q.Group != "" && !validGroup(q.Group):
		d.Fail(d.At("queue.group"), "queue.group", "queue.group %q must be 1 to 64 letters, digits, - and _", clip(q.Group))
	case q.Group != "" && !sharedStore(q.Store):
		d.Fail(d.At("queue.group"), "queue.group", `queue.group is the queue that replicas share: set queue.store to the NATS server that keeps it, "nats://HOST"`)
	case q.Group == "" && sharedStore(q.Store):
		d.Fail(d.At("queue.store"), "queue.store", "with NATS servers in queue.store, queue.group names the queue that the replicas share")
	}
}

// validGroup reports whether a name may be a group's: it is a part of a key of the store.
func validGroup(name string) bool {
	return len(name) <= 64 && validName(name) && !strings.Contains(name, ".")
}

// tool makes a Tool of an entry of tools.
func (d *decoder) tool(f *fileTool, c *Config) {
	if !d.named("tool", &f.fileEntry) {
		return
	}
	t := Tool{Name: f.Name, Title: f.Title, Description: f.Description, Async: f.Async, Priority: f.Priority, Idempotent: f.Idempotent, Timeout: time.Duration(f.TimeoutMs), source: d.source(&f.fileEntry)}
	if t.Timeout == 0 && t.Async {
		t.Timeout = time.Duration(f.AsyncTimeout)
	}
	who := fmt.Sprintf("tool %q", t.Name)
	t.run = d.command(&f.fileEntry, who)
	t.InputSchema = d.inputSchema(cmp.Or(f.InputSchema, f.Input), f.Path+".inputSchema", who, c)
	if t.Idempotent && !t.Async {
		d.Fail(f.Node, f.Path+".idempotent", "%s: idempotent is for tools with async: true, whose interrupted tasks are started again", who)
	}
	if f.OutputSchema != nil {
		t.OutputSchema = d.json(f.OutputSchema, f.Path+".outputSchema")
	}
	if f.Annotations != nil {
		t.Annotations = d.json(f.Annotations, f.Path+".annotations")
	}
	if t.run != nil {
		c.Tools = append(c.Tools, t)
	}
}

// inputSchema reads a schema as JSON Schema, or as the public implementation's
// map of fields.
func (d *decoder) inputSchema(n *strict.Node, path, who string, c *Config) json.RawMessage {
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
		d.Fail(n, path, "%s: %v", path, err)
		return nil
	}
	c.Notes = append(c.Notes, who+": inputSchema read as a map of fields, and translated to JSON Schema")
	return schema
}

// resource makes a Resource of an entry of resources.
func (d *decoder) resource(f *fileResource, c *Config) {
	if !d.named("resource", &f.fileEntry) {
		return
	}
	r := Resource{
		Name: f.Name, Title: f.Title, Description: f.Description, URI: f.URI, Template: cmp.Or(f.Template, f.URITemplate), MIMEType: f.MIMEType,
		Timeout: time.Duration(f.TimeoutMs), source: d.source(&f.fileEntry),
	}
	who := fmt.Sprintf("resource %q", r.Name)
	if (r.URI == "") == (r.Template == "") {
		d.Fail(f.Node, f.Path, "%s needs either uri or template: uri for one resource, template (such as doc://{id}) for many", who)
		return
	}
	if err := r.check(); err != nil {
		d.Fail(f.Node, f.Path, "%v", err)
		return
	}
	if r.run = d.command(&f.fileEntry, who); r.run != nil {
		c.Resources = append(c.Resources, r)
	}
}

// prompt makes a Prompt of an entry of prompts.
func (d *decoder) prompt(f *filePrompt, c *Config) {
	if !d.named("prompt", &f.fileEntry) {
		return
	}
	p := Prompt{Name: f.Name, Title: f.Title, Description: f.Description, Timeout: time.Duration(f.TimeoutMs), source: d.source(&f.fileEntry)}
	for _, a := range f.Arguments {
		if a.Name == "" {
			d.Fail(a.Node, a.Path, "%s needs a name", a.Path)
		}
		p.Arguments = append(p.Arguments, PromptArgument{Name: a.Name, Title: a.Title, Description: a.Description, Required: a.Required})
	}
	for _, m := range f.Messages {
		message := PromptMessage{Role: m.Role}
		if m.Content != nil {
			message.Content = textContent(d.json(m.Content, m.Path+".content"))
		} else {
			d.Fail(m.Node, m.Path, "%s needs content: a text, or a content block such as {type: text, text: …}", m.Path)
		}
		switch m.Role {
		case "user", "assistant":
		case "system":
			message.Role = "user"
			c.Notes = append(c.Notes, fmt.Sprintf("%s:%d: %s has the role system, which MCP does not know; it is sent as user", d.file, m.Node.Line, m.Path))
		default:
			d.Fail(m.Node, m.Path+".role", `%s.role must be "user" or "assistant", not %q`, m.Path, clip(m.Role))
		}
		p.Messages = append(p.Messages, message)
	}
	who := fmt.Sprintf("prompt %q", p.Name)
	switch {
	case len(f.Messages) > 0 && f.Command.path != "":
		d.Fail(f.Node, f.Path, "%s has both messages and a command: keep one of them", who)
		return
	case len(f.Messages) > 0:
	case f.Command.path == "":
		d.Fail(f.Node, f.Path, "%s needs messages, or a command that prints them", who)
		return
	default:
		if p.run = d.command(&f.fileEntry, who); p.run == nil {
			return
		}
	}
	if !d.Set(f.Path + ".arguments") {
		p.inferArguments()
	}
	c.Prompts = append(c.Prompts, p)
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
