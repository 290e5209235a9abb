package computer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/smcp"
)

// File is a configuration: servers, and the inputs that they name.
type File struct {
	Servers []*Server
	Inputs  []Input
	// Warnings are about keys that have no effect.
	Warnings []string
}

// ToolMeta is what the configuration says about one tool, or about all of a
// server.
type ToolMeta struct {
	AutoApply       Apply           `json:"auto_apply,omitzero"`
	Alias           string          `json:"alias,omitempty"`
	Tags            []string        `json:"tags,omitempty"`
	RetObjectMapper json.RawMessage `json:"ret_object_mapper,omitempty"`
}

// Server is one MCP server of a configuration. Texts may hold placeholders.
type Server struct {
	Name     string
	BundleID string // "" to derive it from the name
	Disabled bool
	// Forbidden are names of tools that are not offered; a call is refused.
	Forbidden []string
	ToolMeta  map[string]ToolMeta
	Default   *ToolMeta
	Type      string // stdio, sse or streamable

	Command string
	Args    []string
	Env     map[string]string
	Cwd     string
	URL     string
	Headers map[string]string
	// Timeout bounds one call; 0 stands for the Computer's own.
	Timeout time.Duration
	// PerSession gives each channel a process of its own.
	PerSession bool

	raw map[string]any // typed values that may hold whole placeholders
}

// bundle is the id by which 0.3 and later know the server.
func (s *Server) bundle() string {
	if s.BundleID != "" {
		return s.BundleID
	}
	id := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s.Name)
	for strings.Contains(id, "__") {
		id = strings.ReplaceAll(id, "__", "_")
	}
	if id = strings.Trim(id, "_-"); id == "" {
		return "bundle"
	}
	return id
}

// meta is what the configuration says about a tool: its own entry before the
// default, field by field.
func (s *Server) meta(tool string) ToolMeta {
	m := s.ToolMeta[tool]
	if d := s.Default; d != nil {
		if m.AutoApply == "" {
			m.AutoApply = d.AutoApply
		}
		if m.Tags == nil {
			m.Tags = d.Tags
		}
		if m.RetObjectMapper == nil {
			m.RetObjectMapper = d.RetObjectMapper
		}
	}
	return m
}

// Parse reads a configuration, JSON or YAML, in any of its forms:
//
//	{"mcpServers": {NAME: {"command": …}}}                         MCP clients
//	{"servers": {NAME: {"type": …, "server_parameters": {…}}}}     A2C-SMCP; a list of servers, too
//	{NAME: {"type": "http", "url": …}}                             the first draft of A2C-SMCP
//
// Keys without effect are warnings; everything else that is wrong is an error,
// all of it at once.
func Parse(name string, data []byte) (*File, error) {
	var node any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&node); err != nil {
		if yamlErr := yaml.Unmarshal(data, &node); yamlErr != nil {
			return nil, fmt.Errorf("%s is neither JSON nor YAML: %w", name, yamlErr)
		}
	}
	p := &parser{file: name}
	f := p.parse(node)
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	f.Warnings = p.warnings
	if err := checkServers(f.Servers); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

type parser struct {
	file     string
	errs     []error
	warnings []string
}

func (p *parser) fail(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(p.file+": "+format, args...))
}

func (p *parser) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(p.file+": "+format, args...))
}

func (p *parser) parse(node any) *File {
	f := &File{}
	switch v := node.(type) {
	case []any:
		f.Servers = p.servers("", v)
	case map[string]any:
		var found any
		where := ""
		for _, key := range []string{"mcpServers", "servers"} {
			if s, ok := v[key]; ok {
				found, where = s, key
				break
			}
		}
		if in, ok := v["inputs"]; ok {
			f.Inputs = p.inputs(in)
		}
		switch {
		case where != "":
			f.Servers = p.servers(where, found)
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if key != where && key != "inputs" && key != "$schema" {
					p.warn("key %q is not read here", key)
				}
			}
		case looksLikeServer(v):
			f.Servers = p.servers("", []any{v})
		default:
			rest := maps.Clone(v)
			delete(rest, "inputs")
			delete(rest, "$schema")
			f.Servers = p.servers("", rest)
		}
	default:
		p.fail("a configuration is a mapping or a list of servers")
	}
	return f
}

// looksLikeServer tells one server from a mapping of them.
func looksLikeServer(v map[string]any) bool {
	_, name := v["name"].(string)
	for _, key := range []string{"type", "command", "url"} {
		if _, ok := v[key].(string); ok && name {
			return true
		}
	}
	return false
}

func (p *parser) servers(where string, node any) []*Server {
	var out []*Server
	switch v := node.(type) {
	case nil:
	case []any:
		for i, entry := range v {
			m, ok := entry.(map[string]any)
			if !ok {
				p.fail("%s[%d] must be a mapping", where, i)
				continue
			}
			name, _ := m["name"].(string)
			if name == "" {
				p.fail("%s[%d] has no name", where, i)
				continue
			}
			out = append(out, p.server(name, m))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m, ok := v[key].(map[string]any)
			if !ok {
				p.fail("server %q must be a mapping", key)
				continue
			}
			name := key
			if own, ok := m["name"].(string); ok && own != "" {
				name = own
			}
			out = append(out, p.server(name, m))
		}
	default:
		p.fail("%s must be a mapping or a list of servers", where)
	}
	return out
}

// serverKeys are the keys of a server beside its parameters; paramKeys those of
// server_parameters, which may stand beside type as well; metaKeys those of what
// is said about a tool.
var (
	serverKeys = []string{"name", "bundle_id", "disabled", "forbidden_tools", "tool_meta", "default_tool_meta", "type", "server_parameters", "per_session", "exclude_tools"}
	paramKeys  = []string{"command", "args", "env", "cwd", "url", "headers", "timeout", "sse_read_timeout", "terminate_on_close", "encoding", "encoding_error_handler"}
	metaKeys   = []string{"auto_apply", "alias", "tags", "ret_object_mapper"}
)

func (p *parser) server(name string, m map[string]any) *Server {
	s := &Server{Name: name, raw: map[string]any{}}
	at := func(key string) string { return "server " + strconv.Quote(name) + ": " + key }
	params, _ := m["server_parameters"].(map[string]any)
	if m["server_parameters"] != nil && params == nil {
		p.fail("%s must be a mapping", at("server_parameters"))
	}
	for _, key := range paramKeys {
		if v, ok := m[key]; ok && v != nil {
			s.raw[key] = v
		}
		if v, ok := params[key]; ok && v != nil {
			s.raw[key] = v
		}
	}
	for _, group := range []struct {
		m     map[string]any
		known []string
	}{{m, slices.Concat(serverKeys, paramKeys)}, {params, paramKeys}} {
		for _, key := range slices.Sorted(maps.Keys(group.m)) {
			if !slices.Contains(group.known, key) {
				p.warn("%s has no effect", at(key))
			}
		}
	}
	s.BundleID = p.text(m["bundle_id"], at("bundle_id"))
	if s.BundleID != "" && (strings.Contains(s.BundleID, "__") || (&Server{Name: s.BundleID}).bundle() != s.BundleID) {
		p.fail("%s must be letters, digits, '-' and single '_', not %q", at("bundle_id"), s.BundleID)
	}
	s.Disabled = p.flag(m["disabled"], at("disabled"))
	s.PerSession = p.flag(m["per_session"], at("per_session"))
	s.Forbidden = append(p.texts(m["forbidden_tools"], at("forbidden_tools")), p.texts(m["exclude_tools"], at("exclude_tools"))...)
	s.Default = p.defaultMeta(m["default_tool_meta"], at("default_tool_meta"))
	s.ToolMeta = map[string]ToolMeta{}
	metas, ok := m["tool_meta"].(map[string]any)
	if m["tool_meta"] != nil && !ok {
		p.fail("%s must be a mapping of names of tools", at("tool_meta"))
	}
	for tool, v := range metas {
		if meta := p.defaultMeta(v, at("tool_meta."+tool)); meta != nil {
			s.ToolMeta[tool] = *meta
		}
	}
	s.Type = p.kind(m["type"], s.raw, at)
	s.Command, s.Cwd, s.URL = p.text(s.raw["command"], at("command")), p.text(s.raw["cwd"], at("cwd")), p.text(s.raw["url"], at("url"))
	s.Args = p.texts(s.raw["args"], at("args"))
	s.Env, s.Headers = p.textMap(s.raw["env"], at("env")), p.textMap(s.raw["headers"], at("headers"))
	if v, ok := s.raw["timeout"]; ok && !placeholder.MatchString(fmt.Sprint(v)) {
		d, err := duration(v)
		if err != nil {
			p.fail("%s: %v", at("timeout"), err)
		}
		s.Timeout = d
	}
	return s
}

// kind is the transport: stdio, sse or streamable, also called http.
func (p *parser) kind(v any, params map[string]any, at func(string) string) string {
	text, _ := v.(string)
	switch text {
	case "":
		switch {
		case v != nil:
			p.fail("%s must be stdio, sse or streamable", at("type"))
		case params["url"] != nil:
			text = "streamable"
		case params["command"] != nil:
			text = "stdio"
		default:
			p.fail("%s", at("neither command nor url is there; give the program to start or the URL to call"))
			return "stdio"
		}
	case "http", "streamable-http", "streamableHttp", "streamable_http", "streamable":
		text = "streamable"
	case "stdio", "sse":
	default:
		p.fail("%s must be stdio, sse, streamable or http, not %q", at("type"), text)
		return text
	}
	switch {
	case text == "stdio" && params["command"] == nil:
		p.fail("%s", at("type stdio needs command"))
	case text != "stdio" && params["url"] == nil:
		p.fail("%s", at("type "+text+" needs url"))
	}
	return text
}

func (p *parser) text(v any, where string) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number, bool, int, float64:
		return fmt.Sprint(v)
	}
	p.fail("%s must be a text", where)
	return ""
}

func (p *parser) flag(v any, where string) bool {
	b, ok := v.(bool)
	if v != nil && !ok {
		p.fail("%s must be true or false", where)
	}
	return b
}

func (p *parser) texts(v any, where string) []string {
	list, ok := v.([]any)
	if v != nil && !ok {
		p.fail("%s must be a list of texts", where)
	}
	var out []string
	for _, item := range list {
		out = append(out, p.text(item, where))
	}
	return out
}

func (p *parser) textMap(v any, where string) map[string]string {
	m, ok := v.(map[string]any)
	if v != nil && !ok {
		p.fail("%s must be a mapping of texts", where)
	}
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for key, item := range m {
		out[key] = p.text(item, where+"."+key)
	}
	return out
}

func (p *parser) defaultMeta(v any, where string) *ToolMeta {
	if v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		p.fail("%s must be a mapping", where)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(metaKeys, key) {
			p.warn("%s.%s has no effect", where, key)
		}
	}
	raw, err := json.Marshal(m)
	var meta ToolMeta
	if err == nil {
		err = json.Unmarshal(raw, &meta)
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		kinds := map[string]string{"auto_apply": `true, false or "read_only"`, "alias": "a text", "tags": "a list of texts"}
		p.fail("%s.%s must be %s", where, wrong.Field, kinds[wrong.Field])
	case err != nil:
		p.fail("%s: %v", where, err)
	}
	return &meta
}

// duration reads seconds, a Go duration or an ISO 8601 one such as PT30S.
func duration(v any) (time.Duration, error) {
	text := fmt.Sprint(v)
	if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 && f < math.MaxInt32 {
		return time.Duration(f * float64(time.Second)), nil
	}
	if rest, ok := strings.CutPrefix(text, "PT"); ok {
		text = strings.ToLower(rest)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no number of seconds and no duration such as 30s or PT30S", fmt.Sprint(v))
	}
	return d, nil
}

func (p *parser) inputs(v any) []Input {
	list, ok := v.([]any)
	if v != nil && !ok {
		p.fail("inputs must be a list")
	}
	var out []Input
	seen := map[string]bool{}
	for i, item := range list {
		raw, err := json.Marshal(item)
		var in Input
		if err == nil {
			err = json.Unmarshal(raw, &in)
		}
		switch {
		case err != nil:
			p.fail("inputs[%d]: %v", i, err)
		case in.ID == "":
			p.fail("inputs[%d] has no id", i)
		case seen[in.ID]:
			p.fail("inputs[%d]: there is another input %q", i, in.ID)
		case in.Type != InputPrompt && in.Type != InputPick && in.Type != InputCommand:
			p.fail("inputs[%d] %q: type must be promptString, pickString or command, not %q", i, in.ID, in.Type)
		case in.Type == InputCommand && in.Command == "":
			p.fail("inputs[%d] %q: type command needs command", i, in.ID)
		case in.Type == InputPick && len(in.Options) == 0:
			p.fail("inputs[%d] %q: type pickString needs options", i, in.ID)
		default:
			seen[in.ID] = true
			out = append(out, in)
		}
	}
	return out
}

// checkServers checks what several servers have to agree about.
func checkServers(servers []*Server) error {
	if len(servers) > maxServers {
		return fmt.Errorf("%d MCP servers are more than the bound of %d; another Computer may have the rest", len(servers), maxServers)
	}
	names, bundles := map[string]bool{}, map[string]string{}
	var errs []error
	for _, s := range servers {
		if s.Name == "" {
			errs = append(errs, errors.New("a server has no name"))
			continue
		}
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("two servers have the name %q", s.Name))
		}
		if other, ok := bundles[s.bundle()]; ok && other != s.Name {
			errs = append(errs, fmt.Errorf("servers %q and %q have the same bundle id %q; set bundle_id of one of them", other, s.Name, s.bundle()))
		}
		names[s.Name], bundles[s.bundle()] = true, s.Name
		aliases := map[string]string{}
		for _, tool := range slices.Sorted(maps.Keys(s.ToolMeta)) {
			alias := s.ToolMeta[tool].Alias
			if other, ok := aliases[alias]; ok && alias != "" {
				errs = append(errs, fmt.Errorf("server %q: tools %q and %q have the same alias %q", s.Name, other, tool, alias))
			}
			aliases[alias] = tool
		}
	}
	return errors.Join(errs...)
}

// public is the server as get_config shows it. In the flat form, the first
// draft's, url and command stand beside type, and streamable is called http.
func (s *Server) public(flat bool) (json.RawMessage, error) {
	meta := s.ToolMeta
	if meta == nil {
		meta = map[string]ToolMeta{}
	}
	out := map[string]any{"name": s.Name, "type": s.Type, "disabled": s.Disabled, "forbidden_tools": append([]string{}, s.Forbidden...), "tool_meta": meta}
	if s.Default != nil {
		out["default_tool_meta"] = s.Default
	}
	if !flat {
		out["bundle_id"] = s.bundle()
	}
	params := map[string]any{}
	switch s.Type {
	case "stdio":
		params["command"], params["args"] = s.Command, maskArgs(s.Args)
		params["env"], params["cwd"] = nil, nil
		if s.Env != nil {
			params["env"] = maskMap(s.Env)
		}
		if s.Cwd != "" {
			params["cwd"] = s.Cwd
		}
		params["encoding"], params["encoding_error_handler"] = "utf-8", "strict"
	default:
		params["url"], params["headers"] = maskURL(s.URL), nil
		if s.Headers != nil {
			params["headers"] = maskMap(s.Headers)
		}
		timeout := s.Timeout
		if timeout == 0 {
			timeout = 30 * time.Second
		}
		if s.Type == "sse" {
			params["timeout"], params["sse_read_timeout"] = timeout.Seconds(), 300.0
		} else {
			params["timeout"], params["sse_read_timeout"], params["terminate_on_close"] = isoDuration(timeout), "PT5M", true
		}
	}
	if flat {
		for _, key := range []string{"command", "url"} {
			if v, ok := params[key]; ok {
				out[key] = v
			}
		}
		if s.Type == "streamable" {
			out["type"] = "http"
		}
	}
	out["server_parameters"] = params
	return smcp.Encode(out)
}

func isoDuration(d time.Duration) string {
	return "PT" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "S"
}

// absolute makes a path of the configuration independent of where the process
// runs.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}
