package flow

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// metaLabel is the key in a result's _meta under which a server labels it: {"integrity": "trusted",
// "confidentiality": ["hr"]}. It counts where the operator trusts the labels of the server.
const metaLabel = "weir/label"

// server is what the rules know of a server.
type server struct {
	flow  mcpserver.Flow
	known string // what it reads, by the table of known servers
}

// serversOf returns the servers of which the rules know something.
func serversOf(all []*mcpserver.Server) map[string]server {
	out := map[string]server{}
	for _, s := range all {
		if one := (server{s.Flow, knownServer(s)}); one.flow.Set() || one.flow.Labels == mcpserver.LabelsTrusted || one.known != "" {
			out[s.Name] = one
		}
	}
	return out
}

// conditionsOf compiles the conditions of rules; it is nil if there are none.
func conditionsOf(rules []config.FlowLabel) []*authz.Expression {
	var out []*authz.Expression
	for i, r := range rules {
		if r.When == "" {
			continue
		}
		if out == nil {
			out = make([]*authz.Expression, len(rules))
		}
		x, err := authz.Compile(r.When)
		if err != nil { // impossible: the configuration was checked
			x = &authz.Expression{}
		}
		out[i] = x
	}
	return out
}

// matches reports whether a rule is about an entry.
func matches(tool, namespace string, e *catalog.Entry) bool {
	return (namespace == "" || namespace == e.Namespace) && (tool == "" || e.NamedBy(tool))
}

// Of returns the label of the result of a call, before it is there.
func (f *Flow) Of(c Call) Label {
	if f == nil || c.Entry == nil {
		return Label{}
	}
	l, _, _ := f.why(c)
	return l
}

// Why returns the label of the results of an entry, and the rule that gives it. A rule with a condition counts where it
// stands first: its name says so.
func (f *Flow) Why(e *catalog.Entry) (Label, string) {
	l, why, _ := f.why(Call{Entry: e, listed: true})
	return l, why
}

// Answered returns the label of a result that is there: the server may have put one on it. before is the label of Of.
func (f *Flow) Answered(c Call, before Label, result json.RawMessage) Label {
	if f == nil || c.Entry == nil || f.servers[c.Entry.Upstream].flow.Labels != mcpserver.LabelsTrusted {
		return before
	}
	if _, _, ruled := f.why(c); ruled {
		return before
	}
	raw := rawjson.GetPath(result, "_meta", metaLabel)
	if raw == nil {
		return before
	}
	var own struct {
		Integrity       string   `json:"integrity"`
		Confidentiality []string `json:"confidentiality"`
	}
	bad := json.Unmarshal(raw, &own) != nil
	for _, name := range own.Confidentiality {
		bad = bad || !config.FlowName(name)
	}
	l := Label{Untrusted: bad || own.Integrity != mcpserver.Trusted, Sources: []string{sourceOf(c.Entry)}}
	if bad {
		l.Confidentiality = []string{allNames} // which names it means is not known
	} else if l.Confidentiality = sortedNames(own.Confidentiality); len(l.Confidentiality) > maxNames {
		l.Confidentiality = []string{allNames}
	}
	return l
}

// rule returns the name of a rule, as a path of the configuration.
func rule(list string, i int) string { return "flow." + list + "[" + strconv.Itoa(i) + "]" }

func sourceOf(e *catalog.Entry) string { return text.Cut(e.ID, maxTool) }

func sortedNames(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// why returns the label of the result of a call, the rule that gives it, and whether that is a rule of flow.label.
func (f *Flow) why(c Call) (l Label, why string, ruled bool) {
	e := c.Entry
	id := []string{sourceOf(e)}
	for i := range f.c.Label {
		r := &f.c.Label[i]
		if !matches(r.Tool, r.Namespace, e) {
			continue
		}
		why, untrusted := rule("label", i), r.Integrity == mcpserver.Untrusted
		if r.When != "" {
			switch {
			case c.listed:
				why += ", where its condition holds"
			default:
				holds, certain := f.holds(i, c)
				if !holds && certain {
					continue
				}
				untrusted = untrusted || !certain
			}
		}
		return Label{untrusted, sortedNames(r.Confidentiality), id}, why, true
	}
	s := f.servers[e.Upstream]
	if s.flow.Set() {
		return Label{s.flow.Integrity != mcpserver.Trusted, sortedNames(s.flow.Confidentiality), id}, "mcpServers." + e.Upstream + ".flow", false
	}
	why = "default"
	switch {
	case s.known != "":
		why = "known server: " + s.known
	case e.OpenWorld:
		why = "hint: open-world"
	}
	return Label{Untrusted: true, Sources: id}, why, false
}

// holds reports whether the condition of a rule holds for a call, and whether that is certain.
func (f *Flow) holds(at int, c Call) (holds, certain bool) {
	e := c.Entry
	in := authz.Input{Identity: &identity.Identity{}, Server: e.Upstream, Args: c.Args, Tool: &authz.Tool{
		ID: e.ID, Namespace: e.Namespace, Name: e.RawName, Tags: e.Tags,
		ReadOnly: e.ReadOnly, Destructive: e.Destructive, Idempotent: e.Idempotent, OpenWorld: e.OpenWorld,
	}}
	if c.URI != "" {
		in.Args = rawjson.Object("uri", rawjson.Quote(c.URI))
	}
	if c.Odd || c.Args != nil && !rawjson.IsObject(c.Args) && c.URI == "" {
		in.Unknown = authz.Args
	}
	truth, _ := f.when[at].Eval(&in)
	return truth == authz.Yes, truth == authz.Yes || truth == authz.No
}

// Sink returns the sink that a tool is, and the rule that makes it one. It is nil for a tool that is none.
func (f *Flow) Sink(e *catalog.Entry) (*config.FlowSink, string) {
	if f == nil || e == nil {
		return nil, ""
	}
	for i := range f.c.Sinks {
		if r := &f.c.Sinks[i]; matches(r.Tool, r.Namespace, e) {
			if r.Kind == config.SinkNone {
				return nil, rule("sinks", i)
			}
			return r, rule("sinks", i)
		}
	}
	if e.ReadOnly || e.InputSchema == nil || e.URI != "" {
		return nil, ""
	}
	if known := f.servers[e.Upstream].known; known != "" {
		return &hinted, "not read-only, of a known server: " + known
	}
	if e.OpenWorld {
		return &hinted, "hint: open-world, not read-only"
	}
	return nil, ""
}

// hinted is the sink of a tool that no rule names.
var hinted = config.FlowSink{Kind: config.SinkEgress}

// Declassified returns the types of values in the results of a tool that are trusted, and the rule that says so.
func (f *Flow) Declassified(e *catalog.Entry) ([]string, string) {
	if f == nil || e == nil {
		return nil, ""
	}
	for i := range f.c.Declassify {
		if r := &f.c.Declassify[i]; matches(r.Tool, "", e) {
			return r.Types, rule("declassify", i)
		}
	}
	return nil, ""
}

// Definition returns the label of the definition of an entry. A definition that has changed since an operator agreed to
// it is a text like the results of its server.
func (f *Flow) Definition(e *catalog.Entry) Label {
	if f == nil || e == nil || !e.Changed() {
		return Label{}
	}
	l, _ := f.Why(e)
	if !l.Untrusted {
		return Label{}
	}
	return Label{Untrusted: true, Sources: []string{"definition of " + text.Cut(e.ID, maxTool-len("definition of "))}}
}
