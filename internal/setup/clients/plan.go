package clients

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// Select chooses the servers that move.
type Select struct {
	// All also moves servers that are disabled in the client; they stay disabled.
	All bool

	// Projects moves the servers that a client keeps for single folders.
	Projects bool

	// How recognises entries that are weir itself.
	How How

	// Existing are the servers of weir.yaml, as [Servers] reads them with [OwnFile]. They keep their
	// names, and a server that is among them is not added again.
	Existing []Server

	// Answer answers a question that a client asks for an entry; nil answers none.
	Answer func(client, server string, question splice.Object) (answer string, ok bool)
}

// Planned is a server for weir.yaml. The texts of Server hold ${secret:NAME} for each of the plan's
// secrets.
type Planned struct {
	Name   string // in weir.yaml
	Server Server
	From   []Server // the clients' entries for it, as they stand in the files
}

// Plan is the plan of an import.
type Plan struct {
	Servers []Planned // new in weir.yaml, in order
	Known   []Planned // in weir.yaml already: only the clients' entries go
	Stay    []Server  // left in their clients, with the reason in Stay
	Secrets []Secret
	Notes   []Note

	// Narrower are the entries that let fewer tools through than the server of Known that they are for.
	// Their clients would reach more through weir than they do now.
	Narrower []Server
}

// Moved returns the entries of one client that go out of its file, including Known.
func (p *Plan) Moved(client string) []Server {
	var out []Server
	for _, planned := range slices.Concat(p.Servers, p.Known) {
		for _, s := range planned.From {
			if s.Client == client {
				out = append(out, s)
			}
		}
	}
	return out
}

// Make plans the import of servers that [Servers] has read. Entries for the same server become one.
// Names become legal in weir.yaml, and are the same in each plan.
func Make(servers []Server, o Select, env Environment) *Plan {
	p := &Plan{}
	p.Known = make([]Planned, 0, len(o.Existing))
	for _, s := range o.Existing {
		p.Known = append(p.Known, Planned{Name: s.Name, Server: s})
	}
	for _, s := range servers {
		if o.How.IsOurs(s) {
			continue
		}
		if s.Stay = reason(s, o); s.Stay != "" {
			p.Stay = append(p.Stay, s)
			continue
		}
		if known := find(p.Known, s, env); known != nil {
			p.know(known, s)
		} else if planned := find(p.Servers, s, env); planned != nil {
			p.join(planned, s)
		} else {
			p.Servers = append(p.Servers, Planned{Server: s, From: []Server{s}})
		}
	}
	p.Known = slices.DeleteFunc(p.Known, func(k Planned) bool { return len(k.From) == 0 })
	p.leaveDisjoint()
	p.name(o.Existing)
	p.ask(o.Answer)
	p.conceal()
	p.signIns()
	return p
}

// reason returns why an entry stays in its client; "" if it moves.
func reason(s Server, o Select) string {
	switch {
	case s.Stay != "":
		return s.Stay
	case s.Project != "" && !o.Projects:
		return "it belongs to the project " + s.Project
	case s.Disabled && !o.All:
		return "it is switched off"
	}
	return ""
}

// find returns the planned server that an entry is for, or nil.
func find(planned []Planned, s Server, env Environment) *Planned {
	same := identity(s, env)
	for i := range planned {
		if identity(planned[i].Server, env) == same {
			return &planned[i]
		}
	}
	return nil
}

// know adds an entry to the server of weir.yaml that it is for, which stays as it is.
func (p *Plan) know(known *Planned, s Server) {
	known.From = append(known.From, s)
	both := known.Server
	if both.narrow(s); !sameTools(both, known.Server) {
		p.Narrower = append(p.Narrower, s)
		p.Notes = append(p.Notes, Note{s.Client, s.Name, "it offers " + s.tools() + " here, and more in weir, so weir does not connect " + s.Client +
			": narrow include_tools in weir.yaml, or choose a profile for it: weir connect " + s.Client + " --profile NAME", true})
	}
}

// join adds an entry to the planned server that it is for. The server offers the tools that all of its
// clients let through, so that none reaches more than before.
func (p *Plan) join(planned *Planned, s Server) {
	first := planned.From[0]
	planned.From = append(planned.From, s)
	planned.Server.Disabled = planned.Server.Disabled && s.Disabled
	if sameTools(first, s) {
		return
	}
	planned.Server.narrow(s)
	p.Notes = append(p.Notes, Note{s.Client, s.Name, "it offers " + s.tools() + " here, and " + first.tools() + " in " + first.Client +
		"; weir lets through what both do: include_tools and exclude_tools change it", true})
}

// sameTools reports whether two entries let the same tools through.
func sameTools(a, b Server) bool {
	return slices.Equal(a.IncludeTools, b.IncludeTools) && slices.Equal(a.ExcludeTools, b.ExcludeTools)
}

// tools says which tools an entry lets through.
func (s Server) tools() string {
	text := "all tools"
	if len(s.IncludeTools) > 0 {
		text = strings.Join(s.IncludeTools, ", ")
	}
	if len(s.ExcludeTools) > 0 {
		text += " without " + strings.Join(s.ExcludeTools, ", ")
	}
	return text
}

// narrow takes away the tools that another entry does not let through. Tools of both may be none: see
// disjoint.
func (s *Server) narrow(other Server) {
	switch {
	case s.IncludeTools == nil:
		s.IncludeTools = other.IncludeTools
	case other.IncludeTools != nil:
		s.IncludeTools = slices.DeleteFunc(slices.Clone(s.IncludeTools), func(name string) bool { return !slices.Contains(other.IncludeTools, name) })
	}
	for _, name := range other.ExcludeTools {
		if !slices.Contains(s.ExcludeTools, name) {
			s.ExcludeTools = append(slices.Clip(s.ExcludeTools), name)
		}
	}
}

// leaveDisjoint leaves the servers in their clients that no tool would be left of.
func (p *Plan) leaveDisjoint() {
	p.Servers = slices.DeleteFunc(p.Servers, func(planned Planned) bool {
		if planned.Server.IncludeTools == nil || len(planned.Server.IncludeTools) > 0 {
			return false
		}
		p.leave(planned, "its clients let different tools through, and none that all do")
		return true
	})
}

// identity returns a text that two entries share if they are for the same server. The text has the
// command or the URL, with variables resolved.
func identity(s Server, env Environment) string {
	var b strings.Builder
	add := func(texts ...string) {
		for _, text := range texts {
			text = resolve(text, env.Getenv)
			b.WriteString(strconv.Itoa(len(text)) + ":" + text)
		}
	}
	add(string(s.Transport), s.Command, s.Cwd, s.EnvFile, strings.TrimRight(s.URL, "/"), strconv.Itoa(len(s.Args)))
	add(s.Args...)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		add("env", name, s.Env[name])
	}
	for _, name := range slices.SortedFunc(maps.Keys(s.Headers), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		add("header", strings.ToLower(name), s.Headers[name])
	}
	return b.String()
}

// name gives each server of the plan its name.
func (p *Plan) name(existing []Server) {
	taken := map[string]bool{}
	for _, s := range existing {
		taken[namespace(s.Name)] = true
	}
	for i := range p.Servers {
		s := &p.Servers[i]
		name := legalName(s.Server.Name)
		for n, tried := 1, name; ; n++ {
			if !taken[namespace(tried)] {
				s.Name = tried
				break
			}
			suffix := "-" + s.Server.Client
			if n > 1 {
				suffix += "-" + strconv.Itoa(n)
			}
			tried = name[:min(len(name), 64-len(suffix))] + suffix
		}
		taken[namespace(s.Name)] = true
		if s.Name != s.Server.Name {
			p.Notes = append(p.Notes, Note{Client: s.Server.Client, Server: s.Server.Name, Text: "it is called " + s.Name + " in weir"})
		}
	}
}

// legalName returns a name that weir accepts for a server, and that stays itself.
func legalName(name string) string {
	legal := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name)
	for strings.Contains(legal, "--") {
		legal = strings.ReplaceAll(legal, "--", "-")
	}
	legal = strings.TrimLeft(legal, "._-")
	legal = strings.TrimRight(legal[:min(len(legal), 64)], "._-")
	if legal == "" {
		return "server"
	}
	return legal
}

// namespace returns the namespace that weir makes from a server's name. It must be unique.
func namespace(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), ".", "_")
}

// ToWeir returns the entries for mcpServers of weir.yaml. The text that reference returns stands where
// a secret stood: [Secret.Reference], or another place where weir finds it.
func (p *Plan) ToWeir(reference func(Secret) string) (servers splice.Object) {
	var pairs []string
	for _, secret := range p.Secrets {
		pairs = append(pairs, secret.Reference(), reference(secret))
	}
	replace := strings.NewReplacer(pairs...)
	for _, planned := range p.Servers {
		servers = append(servers, splice.Member{Key: planned.Name, Value: toWeir(planned.Server, replace)})
	}
	return servers
}

// toWeir returns one entry with the keys of weir's configuration.
func toWeir(s Server, replace *strings.Replacer) splice.Object {
	var out splice.Object
	text := func(key, value string) {
		if value != "" {
			out = append(out, splice.Member{Key: key, Value: replace.Replace(value)})
		}
	}
	list := func(key string, values []string) {
		if len(values) > 0 {
			items := make([]any, len(values))
			for i, value := range values {
				items[i] = replace.Replace(value)
			}
			out = append(out, splice.Member{Key: key, Value: items})
		}
	}
	object := func(key string, values map[string]string) {
		var members splice.Object
		for _, name := range slices.Sorted(maps.Keys(values)) {
			members = append(members, splice.Member{Key: name, Value: replace.Replace(values[name])})
		}
		if len(members) > 0 {
			out = append(out, splice.Member{Key: key, Value: members})
		}
	}
	if s.Transport == SSE {
		text("type", string(s.Transport))
	}
	text("command", s.Command)
	list("args", s.Args)
	object("env", s.Env)
	text("env_file", s.EnvFile)
	text("cwd", s.Cwd)
	text("url", s.URL)
	object("headers", s.Headers)
	if oauth := s.OAuth.member(replace.Replace); oauth != nil {
		out = append(out, splice.Member{Key: "oauth", Value: oauth})
	}
	list("include_tools", s.IncludeTools)
	list("exclude_tools", s.ExcludeTools)
	if s.Timeout > 0 {
		text("timeout", s.Timeout.Round(time.Millisecond).String())
	}
	text("sandbox", s.Sandbox)
	if s.Disabled {
		out = append(out, splice.Member{Key: "disabled", Value: true})
	}
	return out
}

// OwnFile is the form of weir.yaml, for [Servers]. An import must not add its servers again.
func OwnFile() *Client {
	return &Client{ID: "weir", Name: "weir", Format: splice.YAML, key: mcpServers, form: plain, vars: own}
}
