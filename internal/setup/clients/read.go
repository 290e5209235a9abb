package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// Servers returns the MCP servers in a client's file, in the file's order, with notes about
// unreadable parts. An empty file has none. Entries that only the client can use have a reason in
// Stay. An error means that the whole file is unreadable.
func Servers(c *Client, doc []byte, env Environment) ([]Server, []Note, error) {
	tree, err := splice.Decode(doc, c.Format)
	if err != nil {
		return nil, nil, fmt.Errorf("the file of %s: %w", c.Name, err)
	}
	root, ok := tree.(splice.Object)
	if !ok {
		if tree == nil {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("the file of %s is not an object", c.Name)
	}
	r := &reader{client: c, env: env}
	r.inputs, _ = root.Get("inputs").([]any)
	for _, path := range []splice.Path{c.older, c.key} {
		if len(path) > 0 {
			r.all(path, valueAt(root, path), "")
		}
	}
	if c.ID == "claude-code" {
		projects, _ := root.Get("projects").(splice.Object)
		for _, p := range projects {
			settings, _ := p.Value.(splice.Object)
			r.all(splice.Path{"projects", p.Key, "mcpServers"}, settings.Get("mcpServers"), p.Key)
		}
	}
	r.excluded(root)
	return r.servers, r.notes, nil
}

// valueAt returns the value at a path of objects, or nil.
func valueAt(root splice.Object, path splice.Path) any {
	var v any = root
	for _, key := range path {
		object, ok := v.(splice.Object)
		if !ok {
			return nil
		}
		v = object.Get(key)
	}
	return v
}

// reader collects the servers of one file.
type reader struct {
	client  *Client
	env     Environment
	inputs  []any
	servers []Server
	notes   []Note
}

func (r *reader) note(server, format string, args ...any) {
	r.notes = append(r.notes, Note{Client: r.client.ID, Server: server, Text: fmt.Sprintf(format, args...)})
}

// all reads the servers at a path: an object by name, or a list of entries with names.
func (r *reader) all(path splice.Path, v any, project string) {
	switch v := v.(type) {
	case splice.Object:
		for _, m := range v {
			if r.client.older != nil && len(path) < len(r.client.older) && slices.Contains([]string{"servers", "timeout"}, m.Key) && !isEntry(m.Value) {
				continue // the other form of the file
			}
			r.one(m.Key, m.Key, path, m.Value, project)
		}
	case []any:
		for _, item := range v {
			entry, _ := item.(splice.Object)
			name, _ := entry.Get("name").(string)
			if name == "" {
				r.note("", "an entry of %s has no name and is not read", path)
				continue
			}
			r.one(name, "name="+name, path, entry, project)
		}
	case nil:
	default:
		r.note("", "%s is no object of servers", path)
	}
}

// isEntry reports whether a value has a key that starts or reaches a server.
func isEntry(v any) bool {
	entry, _ := v.(splice.Object)
	return slices.ContainsFunc(entry, func(m splice.Member) bool {
		return slices.Contains([]string{"command", "cmd", "url", "uri", "serverUrl", "httpUrl", "type"}, m.Key)
	})
}

// one reads an entry.
func (r *reader) one(name, key string, path splice.Path, v any, project string) {
	object, ok := v.(splice.Object)
	if !ok {
		r.note(name, "the entry is no object")
		return
	}
	if kind, _ := object.Get("type").(string); r.client.ID == "goose" && slices.Contains([]string{"builtin", "platform", "frontend", "inline_python"}, kind) {
		return // a part of the client, no MCP server
	}
	e := &entry{reader: r, s: Server{Client: r.client.ID, Name: name, Path: append(slices.Clone(path), key), Project: project}}
	for _, m := range object {
		e.member(m)
	}
	e.finish()
	r.servers = append(r.servers, e.s)
}

// excluded applies Gemini CLI's lists of servers for the whole file.
func (r *reader) excluded(root splice.Object) {
	mcp, _ := root.Get("mcp").(splice.Object)
	if !slices.Contains([]string{"gemini", "qwen"}, r.client.ID) || mcp == nil {
		return
	}
	out, _ := texts(mcp.Get("excluded"))
	in, only := texts(mcp.Get("allowed"))
	for i, s := range r.servers {
		if slices.Contains(out, s.Name) || only && len(in) > 0 && !slices.Contains(in, s.Name) {
			r.servers[i].Disabled = true
		}
	}
}

// entry reads the members of one entry. Names of several clients are understood in each: files are
// copied from client to client.
type entry struct {
	*reader
	s      Server
	kind   string // type or transport
	urlKey string
}

// stay keeps the entry in the client; the first reason counts.
func (e *entry) stay(format string, args ...any) {
	if e.s.Stay == "" {
		e.s.Stay = fmt.Sprintf(format, args...)
	}
}

// member reads one member.
func (e *entry) member(m splice.Member) {
	switch m.Key {
	case "command", "cmd":
		e.command(m)
	case "args":
		e.s.Args = append(e.s.Args, e.list(m)...)
	case "env", "envs", "environment":
		e.merge(&e.s.Env, m)
	case "envFile", "env_file":
		e.s.EnvFile = e.text(m.Key, m.Value)
	case "cwd", "working_directory", "workingDirectory":
		e.s.Cwd = e.text(m.Key, m.Value)
	case "url", "uri", "serverUrl", "httpUrl":
		if e.s.URL == "" || m.Key == "httpUrl" {
			e.s.URL, e.urlKey = e.text(m.Key, m.Value), m.Key
		}
	case "headers", "http_headers":
		e.merge(&e.s.Headers, m)
	case "requestInit", "requestOptions":
		e.nested(m, "headers")
	case "transport":
		if _, ok := m.Value.(splice.Object); ok {
			e.nested(m, "type", "command", "args", "env", "cwd", "url", "headers")
			return
		}
		e.kind, _ = m.Value.(string)
	case "type", "transportType":
		e.kind, _ = m.Value.(string)
	case "disabled":
		e.s.Disabled = m.Value == true
	case "enabled":
		e.s.Disabled = m.Value == false
	case "name", "description", "bundled", "display_name", "source":
	default:
		e.rare(m)
	}
}

// rare reads the members that few entries have.
func (e *entry) rare(m splice.Member) {
	switch m.Key {
	case "includeTools", "enabled_tools", "available_tools", "include_tools":
		e.only(m)
	case "tools":
		if list, _ := texts(m.Value); !slices.Contains(list, "*") {
			e.only(m)
		}
	case "excludeTools", "disabledTools", "disabled_tools", "exclude_tools":
		e.s.ExcludeTools = e.names(m)
	case "timeout", "tool_timeout_sec":
		e.timeout(m)
	case "env_vars":
		list, ok := texts(m.Value)
		if !ok {
			e.stay("its env_vars name variables of another machine")
		}
		for _, name := range list {
			put(&e.s.Env, name, "${env:"+name+"}")
		}
	case "bearer_token_env_var":
		if name, _ := m.Value.(string); variable(name) {
			put(&e.s.Headers, "Authorization", "Bearer ${env:"+name+"}")
		}
	case "env_http_headers":
		headers, _ := m.Value.(splice.Object)
		for _, h := range headers {
			if name, _ := h.Value.(string); variable(name) {
				put(&e.s.Headers, h.Key, "${env:"+name+"}")
			}
		}
	case "env_keys":
		if list, _ := texts(m.Value); len(list) > 0 {
			e.stay("%s keeps its secrets (%s) in a store of its own", e.client.Name, strings.Join(list, ", "))
		}
	case "oauth", "auth", "authProviderType", "oauth_client_id", "oauthClientId":
		if on(m.Value) {
			e.oauth(m)
		}
	case "headersHelper", "http_headers_helper":
		e.stay("its headers come from a program that %s runs (%s)", e.client.Name, m.Key)
	case "sandbox", "sandboxEnabled":
		if on(m.Value) {
			e.stay("%s runs it in a sandbox", e.client.Name)
		}
	default:
		e.s.Unknown = append(e.s.Unknown, m)
	}
}

// on reports whether a value switches something on: not false, null, "" or an empty object.
func on(v any) bool {
	object, isObject := v.(splice.Object)
	if isObject && object.Get("enabled") == false {
		return false
	}
	return v != nil && v != false && v != "" && (!isObject || len(object) > 0)
}

func (e *entry) nested(m splice.Member, known ...string) {
	object, _ := m.Value.(splice.Object)
	for _, inner := range object {
		if slices.Contains(known, inner.Key) {
			e.member(inner)
		} else {
			e.s.Unknown = append(e.s.Unknown, splice.Member{Key: m.Key + "." + inner.Key, Value: inner.Value})
		}
	}
}

func (e *entry) command(m splice.Member) {
	if _, ok := m.Value.([]any); !ok {
		e.s.Command = e.text(m.Key, m.Value)
		return
	}
	if argv := e.list(m); len(argv) > 0 {
		e.s.Command, e.s.Args = argv[0], append(argv[1:], e.s.Args...)
	}
}

// text reads one text in the client's syntax.
func (e *entry) text(what string, v any) string {
	text, ok := scalar(v)
	if !ok {
		e.stay("%s is no text", what)
		return ""
	}
	out, err := e.client.vars.translate(text, e.env.OS == "windows")
	if err != nil {
		e.stay("%s", movable(what, err))
	}
	return out
}

func (e *entry) list(m splice.Member) []string {
	items, ok := m.Value.([]any)
	if !ok {
		if m.Value != nil {
			e.stay("%s is no list of texts", m.Key)
		}
		return nil
	}
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, e.text(m.Key, item))
	}
	return out
}

// merge reads an object of texts.
func (e *entry) merge(into *map[string]string, m splice.Member) {
	object, ok := m.Value.(splice.Object)
	if !ok && m.Value != nil {
		e.stay("%s is no object of texts", m.Key)
	}
	for _, pair := range object {
		if pair.Value != nil {
			put(into, pair.Key, e.text(m.Key+"."+pair.Key, pair.Value))
		}
	}
}

// only reads the names of the tools that the client lets through. Goose takes an empty list for all of
// them, the others for none.
func (e *entry) only(m splice.Member) {
	if e.s.IncludeTools = e.names(m); len(e.s.IncludeTools) > 0 || m.Value == nil {
		return
	}
	if e.s.IncludeTools = nil; e.client.ID != "goose" {
		e.stay("its %s lets no tool through", m.Key)
	}
}

// names reads names of tools, which are patterns in weir. An entry whose names cannot be read stays in
// the client: weir would let more through.
func (e *entry) names(m splice.Member) []string {
	list, ok := texts(m.Value)
	if !ok && m.Value != nil {
		e.stay("%s is no list of texts", m.Key)
	}
	return slices.DeleteFunc(list, func(name string) bool { return name == "" })
}

func (e *entry) timeout(m splice.Member) {
	unit := e.client.unit
	if m.Key == "tool_timeout_sec" {
		unit = time.Second
	}
	text, _ := scalar(m.Value)
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number <= 0 || unit == 0 || number > float64(24*time.Hour/unit) {
		e.s.Unknown = append(e.s.Unknown, m)
		return
	}
	e.s.Timeout = time.Duration(number * float64(unit))
}

func put(into *map[string]string, key, value string) {
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[key] = value
}

// scalar returns a text, a number or a flag as a text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// texts returns a list of texts; ok is false if v is anything else.
func texts(v any) (list []string, ok bool) {
	items, ok := v.([]any)
	for _, item := range items {
		text, isText := item.(string)
		if !isText {
			return nil, false
		}
		list = append(list, text)
	}
	return list, ok
}

// finish decides on the transport and looks at the entry as a whole.
func (e *entry) finish() {
	s := &e.s
	e.transport()
	if s.Transport == Stdio {
		splitCommand(s)
		if remote, ok := unwrap(*s); ok {
			e.note(s.Name, "mcp-remote is left out: weir connects to %s itself", hostOf(remote.URL))
			*s = remote
		}
	}
	s.Ours = ours(s)
	e.finishOAuth()
	if name := s.ownVariable(); name != "" && e.client.vars != own {
		e.stay("it reads %s, a variable of weir's own, such as a token for the gateway", clip(name))
	}
	if s.Project != "" && s.Transport == Stdio && s.Cwd == "" && relative(s) {
		s.Cwd = escape(s.Project)
	}
	e.questions()
	if len(s.Unknown) > 0 && !s.Ours {
		var keys []string
		for _, m := range s.Unknown {
			if m.Key == "trust" && m.Value == true {
				e.note(s.Name, "%s ran its tools without asking; behind weir it asks", e.client.Name)
				continue
			}
			keys = append(keys, m.Key)
		}
		if len(keys) > 0 {
			e.note(s.Name, "weir has no key for %s", strings.Join(keys, ", "))
		}
	}
}

func (e *entry) transport() {
	s := &e.s
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(e.kind)) {
	case "sse":
		s.Transport = SSE
	case "http", "streamablehttp":
		s.Transport = HTTP
	case "stdio", "local":
		s.Transport = Stdio
	case "", "remote":
		switch {
		case s.URL == "":
			s.Transport = Stdio
		case e.client.form.sse == e.urlKey && e.urlKey != "", looksSSE(s.URL):
			s.Transport = SSE
		default:
			s.Transport = HTTP
		}
	default:
		e.stay("weir does not know the transport %q", clip(e.kind))
	}
	switch {
	case s.Command == "" && s.URL == "":
		e.stay("it has neither a command nor a URL")
	case s.URL == "" && s.Transport != Stdio:
		e.stay("its type is %s, and it has no URL", s.Transport)
	case s.URL != "" && s.Transport == Stdio && s.Command != "":
		s.URL, s.Headers = "", nil
	case s.URL != "" && s.Transport == Stdio:
		s.Transport = HTTP
	}
	if s.Transport == Stdio {
		s.Headers = nil
		return
	}
	if at := strings.Index(s.URL, "://"); s.URL != "" && at > 0 && s.URL[:at] != "http" && s.URL[:at] != "https" {
		e.stay("weir cannot connect to %s:// addresses", clip(s.URL[:at]))
	}
	if len(s.Env) > 0 {
		e.note(s.Name, "env has no effect on a server with a URL and is left behind")
	}
	s.Command, s.Args, s.Env, s.Cwd, s.EnvFile = "", nil, nil, "", ""
}

// questions copies the inputs that the entry's texts name.
func (e *entry) questions() {
	for _, id := range inputsOf(&e.s) {
		at := slices.IndexFunc(e.inputs, func(v any) bool {
			object, _ := v.(splice.Object)
			return object.Get("id") == id
		})
		if at < 0 {
			e.stay("it asks for the input %q, which the file does not have", clip(id))
			continue
		}
		question, err := inputOf(e.inputs[at].(splice.Object))
		if err != nil {
			e.stay("the input %q %v", clip(id), err)
			continue
		}
		e.s.Inputs = append(e.s.Inputs, question)
	}
}

// inputOf returns an input of VS Code with the members that weir has.
func inputOf(object splice.Object) (splice.Object, error) {
	var out splice.Object
	for _, m := range object {
		switch m.Key {
		case "id", "type", "description", "default", "password":
			out = append(out, m)
		case "options":
			items, _ := m.Value.([]any)
			var values []any
			for _, item := range items {
				if object, ok := item.(splice.Object); ok {
					item = object.Get("value")
				}
				if text, ok := item.(string); ok {
					values = append(values, text)
				}
			}
			out = append(out, splice.Member{Key: m.Key, Value: values})
		case "command":
			return nil, errors.New("comes from a command of the client")
		}
	}
	return out, nil
}
