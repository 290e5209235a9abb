package computer

import (
	"cmp"
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

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/smcp"
)

// File is a parsed configuration: servers and inputs.
type File struct {
	Servers []*Server
	Inputs  []Input
	// Warnings name keys that have no effect.
	Warnings []string

	otlp json.RawMessage // the section otlp, as it is written; nil without one
}

// ToolMeta holds the settings of one tool, or the defaults of a server's tools.
type ToolMeta struct {
	AutoApply       Apply           `json:"auto_apply,omitzero"`
	Alias           string          `json:"alias,omitempty"`
	Tags            []string        `json:"tags,omitempty"`
	RetObjectMapper json.RawMessage `json:"ret_object_mapper,omitempty"`
}

// Server is the configuration of one MCP server. Its strings may contain placeholders.
type Server struct {
	Name     string
	BundleID string // "": derived from the name
	Disabled bool
	// Forbidden names tools that are not offered and whose calls are refused.
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
	// Timeout bounds one call; 0 means Options.CallTimeout.
	Timeout time.Duration
	// PerSession starts a process for each channel.
	PerSession bool

	timeout string // the text in the file, which may hold a placeholder
}

// bundle returns the server's id in dialects 0.3 and later.
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

// meta returns the settings of a tool. Fields of its own entry override the defaults.
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
//	{"servers": {NAME: {"type": …, "server_parameters": {…}}}}     A2C-SMCP; also a list of servers
//	{NAME: {"type": "http", "url": …}}                             the first draft of A2C-SMCP
//
// Next to the servers of the first two forms, otlp says where spans go, as in weir.yaml.
//
// Keys without effect are warnings. Parse reports all other faults in one error, each with its line.
// name stands for the file in messages.
func Parse(name string, data []byte) (*File, error) {
	root, err := strict.Read(name, data)
	if err != nil {
		return nil, err
	}
	p := &parser{Decoder: strict.NewDecoder(strict.Options{File: name, Lenient: true, Quoted: true})}
	f := p.parse(root)
	if problems := p.Problems(); len(problems) > 0 {
		slices.SortStableFunc(problems, strict.ByPlace)
		return nil, &strict.Error{Problems: problems}
	}
	for _, w := range p.Warnings() {
		f.Warnings = append(f.Warnings, w.String())
	}
	if err := checkServers(f.Servers); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// fileServer is a server as written in a file. Its parameters are members of server_parameters or of
// the server itself.
type fileServer struct {
	strict.Place
	Name       string      `key:"name"`
	BundleID   string      `key:"bundle_id"`
	Disabled   bool        `key:"disabled"`
	Forbidden  []string    `key:"forbidden_tools"`
	Excluded   []string    `key:"exclude_tools"`
	ToolMeta   []*fileMeta `key:"tool_meta" name:"Tool"`
	Default    metaKeys    `key:"default_tool_meta"`
	Type       string      `key:"type"`
	PerSession bool        `key:"per_session"`
	Parameters fileParams  `key:"server_parameters"`
	fileParams
}

type fileParams struct {
	Command string            `key:"command"`
	Args    []string          `key:"args"`
	Env     map[string]string `key:"env"`
	Cwd     string            `key:"cwd"`
	URL     string            `key:"url"`
	Headers map[string]string `key:"headers"`
	Timeout string            `key:"timeout"`

	// Other programs write these keys; weir ignores them.
	ReadTimeout  *strict.Node `key:"sse_read_timeout"`
	Terminate    *strict.Node `key:"terminate_on_close"`
	Encoding     *strict.Node `key:"encoding"`
	ErrorHandler *strict.Node `key:"encoding_error_handler"`
}

// fileMeta is the entry of one tool in a file.
type fileMeta struct {
	Tool string // the key in the file
	metaKeys
}

type metaKeys struct {
	AutoApply Apply        `key:"auto_apply"`
	Alias     string       `key:"alias"`
	Tags      []string     `key:"tags"`
	Mapper    *strict.Node `key:"ret_object_mapper"`
}

// DecodeStrict reads true, false or "read_only".
func (a *Apply) DecodeStrict(d *strict.Decoder, n *strict.Node, path string) {
	raw, err := strict.JSON(n)
	if err != nil || a.UnmarshalJSON(raw) != nil {
		d.Wrong(n, path, `true, false or "read_only"`)
	}
}

// parser converts the decoded file into servers and inputs.
type parser struct{ *strict.Decoder }

func (p *parser) parse(root *strict.Node) *File {
	f := &File{}
	switch {
	case root != nil && root.Kind == yaml.SequenceNode:
		f.Servers = p.list("", root)
		return f
	case root == nil || root.Kind != yaml.MappingNode:
		p.Fail(root, "", "a configuration is a mapping or a list of servers")
		return f
	}
	keys := map[string]*strict.Node{}
	var rest []strict.Pair
	for _, pair := range p.Pairs(root, "") {
		keys[pair.Key.Value] = pair.Value
		if key := pair.Key.Value; key != "inputs" && key != "$schema" {
			rest = append(rest, pair)
		}
	}
	if in := keys["inputs"]; in != nil && !strict.IsNull(in) {
		p.Each(in, "inputs", "a list", func(n *strict.Node, path string) { p.input(n, path, f) })
	}
	where := "mcpServers"
	if keys[where] == nil {
		where = "servers"
	}
	switch servers := keys[where]; {
	case servers != nil:
		for _, pair := range rest {
			switch pair.Key.Value {
			case where:
			case "otlp":
				var err error
				if f.otlp, err = strict.JSON(pair.Value); err != nil {
					p.Fail(pair.Value, "otlp", "otlp: %v", err)
				}
			default:
				p.Warn(pair.Key, pair.Key.Value, "key %q is not read here", pair.Key.Value)
			}
		}
		switch {
		case servers.Kind == yaml.SequenceNode:
			f.Servers = p.list(where, servers)
		case servers.Kind == yaml.MappingNode:
			f.Servers = p.mapping(where, p.Pairs(servers, where))
		case !strict.IsNull(servers):
			p.Wrong(servers, where, "a mapping or a list of servers")
		}
	case looksLikeServer(keys):
		f.Servers = []*Server{p.server("", "", root)}
	default:
		f.Servers = p.mapping("", rest)
	}
	return f
}

// looksLikeServer distinguishes a server from a mapping of servers.
func looksLikeServer(keys map[string]*strict.Node) bool {
	text := func(key string) bool { return keys[key] != nil && keys[key].ShortTag() == "!!str" }
	return text("name") && (text("type") || text("command") || text("url"))
}

// list reads the servers of a list.
func (p *parser) list(path string, n *strict.Node) (servers []*Server) {
	p.Each(n, path, "a list of servers", func(item *strict.Node, here string) {
		s := p.server("", here, item)
		if s.Name == "" && item.Kind == yaml.MappingNode {
			p.Fail(item, here, "%s has no name", here)
		}
		servers = append(servers, s)
	})
	return servers
}

// mapping reads the servers of a mapping of names, in the order of the names.
func (p *parser) mapping(path string, pairs []strict.Pair) (servers []*Server) {
	slices.SortFunc(pairs, func(a, b strict.Pair) int { return strings.Compare(a.Key.Value, b.Key.Value) })
	for _, pair := range pairs {
		servers = append(servers, p.server(pair.Key.Value, strict.Join(path, pair.Key.Value), pair.Value))
	}
	return servers
}

// server reads one server. The name in the server overrides the given name.
func (p *parser) server(name, path string, n *strict.Node) *Server {
	var f fileServer
	if !p.Decode(n, path, &f) {
		return &Server{Name: name}
	}
	in := &f.Parameters
	s := &Server{
		Name: cmp.Or(f.Name, name), BundleID: f.BundleID, Disabled: f.Disabled, PerSession: f.PerSession, Forbidden: append(f.Forbidden, f.Excluded...),
		ToolMeta: map[string]ToolMeta{}, Command: cmp.Or(in.Command, f.Command), Cwd: cmp.Or(in.Cwd, f.Cwd), URL: cmp.Or(in.URL, f.URL),
		Args: in.Args, Env: in.Env, Headers: in.Headers, timeout: cmp.Or(in.Timeout, f.Timeout),
	}
	if s.Args == nil {
		s.Args = f.Args
	}
	if s.Env == nil {
		s.Env = f.Env
	}
	if s.Headers == nil {
		s.Headers = f.Headers
	}
	who := "server " + strconv.Quote(s.Name)
	if s.BundleID != "" && (strings.Contains(s.BundleID, "__") || (&Server{Name: s.BundleID}).bundle() != s.BundleID) {
		p.Fail(p.At(strict.Join(path, "bundle_id")), path, "%s: bundle_id must be letters, digits, '-' and single '_', not %q", who, s.BundleID)
	}
	if p.Set(strict.Join(path, "default_tool_meta")) {
		meta := p.meta(f.Default)
		s.Default = &meta
	}
	for _, m := range f.ToolMeta {
		s.ToolMeta[m.Tool] = p.meta(m.metaKeys)
	}
	s.Type = p.kind(&f, who)
	if s.timeout != "" && !placeholder.MatchString(s.timeout) {
		d, err := duration(s.timeout)
		if err != nil {
			p.Fail(f.Node, path, "%s: timeout: %v", who, err)
		}
		s.Timeout = d
	}
	return s
}

// meta reads the keys that concern tools.
func (p *parser) meta(keys metaKeys) ToolMeta {
	m := ToolMeta{AutoApply: keys.AutoApply, Alias: keys.Alias, Tags: keys.Tags}
	if keys.Mapper != nil {
		var err error
		if m.RetObjectMapper, err = strict.JSON(keys.Mapper); err != nil {
			p.Fail(keys.Mapper, "ret_object_mapper", "ret_object_mapper: %v", err)
		}
	}
	return m
}

// kind returns the transport: stdio, sse or streamable, also called http.
func (p *parser) kind(f *fileServer, who string) string {
	has := func(key string) bool {
		return p.Set(strict.Join(f.Path, key)) || p.Set(strict.Join(strict.Join(f.Path, "server_parameters"), key))
	}
	kind := f.Type
	switch kind {
	case "":
		switch {
		case has("url"):
			kind = "streamable"
		case has("command"):
			kind = "stdio"
		default:
			p.Fail(f.Node, f.Path, "%s: neither command nor url is there; give the program to start or the URL to call", who)
			return "stdio"
		}
	case "http", "streamable-http", "streamableHttp", "streamable_http", "streamable":
		kind = "streamable"
	case "stdio", "sse":
	default:
		p.Fail(p.At(strict.Join(f.Path, "type")), f.Path, "%s: type must be stdio, sse, streamable or http, not %q", who, kind)
		return kind
	}
	switch {
	case kind == "stdio" && !has("command"):
		p.Fail(f.Node, f.Path, "%s: type stdio needs command", who)
	case kind != "stdio" && !has("url"):
		p.Fail(f.Node, f.Path, "%s: type %s needs url", who, kind)
	}
	return kind
}

// duration parses seconds, a Go duration, or an ISO 8601 duration such as PT30S.
func duration(text string) (time.Duration, error) {
	given := text
	if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 && f < math.MaxInt32 {
		return time.Duration(f * float64(time.Second)), nil
	}
	if rest, ok := strings.CutPrefix(text, "PT"); ok {
		text = strings.ToLower(rest)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no number of seconds and no duration such as 30s or PT30S", given)
	}
	return d, nil
}

// input reads one element of inputs.
func (p *parser) input(n *strict.Node, path string, f *File) {
	var in Input
	raw, err := strict.JSON(n)
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	switch {
	case err != nil:
		p.Fail(n, path, "%s: %v", path, err)
	case in.ID == "":
		p.Fail(n, path, "%s has no id", path)
	case slices.ContainsFunc(f.Inputs, func(other Input) bool { return other.ID == in.ID }):
		p.Fail(n, path, "%s: there is another input %q", path, in.ID)
	case in.Type != InputPrompt && in.Type != InputPick && in.Type != InputCommand:
		p.Fail(n, path, "%s %q: type must be promptString, pickString or command, not %q", path, in.ID, in.Type)
	case in.Type == InputCommand && in.Command == "":
		p.Fail(n, path, "%s %q: type command needs command", path, in.ID)
	case in.Type == InputPick && len(in.Options) == 0:
		p.Fail(n, path, "%s %q: type pickString needs options", path, in.ID)
	default:
		f.Inputs = append(f.Inputs, in)
	}
}

// checkServers checks rules that concern several servers, such as unique names.
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

// public returns the server in the form of get_config. In the flat form of the first draft, url and
// command are members of the server, and streamable is called http.
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

// absolute resolves a path of the configuration against dir.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}
