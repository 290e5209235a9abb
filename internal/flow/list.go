package flow

import (
	"slices"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
)

// Listing is what the rules say of the tools of a catalog.
type Listing struct {
	Mode    config.FlowMode    `json:"mode"`
	Summary config.FlowSummary `json:"summary"`
	Known   []string           `json:"known"`
	Tools   []Tool             `json:"tools"`
	Unused  []string           `json:"unused"` // rules that no tool, resource or prompt fits
}

// Tool is what the rules say of one tool.
type Tool struct {
	ToolID          string   `json:"tool_id"`
	Server          string   `json:"server"`
	Integrity       string   `json:"integrity"`
	Confidentiality []string `json:"confidentiality"`
	Rule            string   `json:"rule"`           // that gives the label
	Sink            string   `json:"sink,omitempty"` // effect, egress, or "" for a tool that is no sink
	SinkRule        string   `json:"sink_rule,omitempty"`
	Labels          []string `json:"labels,omitempty"`    // names that may leave by it
	To              []string `json:"to,omitempty"`        // to whom
	Sensitive       []string `json:"sensitive,omitempty"` // arguments; none: all of them
	TrustedArgs     bool     `json:"trusted_args,omitempty"`
	Declassified    []string `json:"declassified,omitempty"` // types of its values that a program may use
	DeclassifyRule  string   `json:"declassify_rule,omitempty"`
}

// List returns what the rules of a configuration say of entries, also where they are off.
func List(c *config.Config, entries []*catalog.Entry) Listing {
	rules := c.Flow
	out := Listing{Mode: rules.Mode, Summary: rules.Summary, Known: append([]string{}, rules.Known...), Tools: []Tool{}, Unused: []string{}}
	if rules.Mode == config.FlowOff {
		rules.Mode = config.FlowObserve
	}
	f := New(rules, nil, c.Servers...)
	for _, e := range entries {
		if e.Kind != primitive.KindTool {
			continue
		}
		l, why := f.Why(e)
		one := Tool{ToolID: e.ID, Server: e.Upstream, Integrity: l.Integrity(), Confidentiality: append([]string{}, l.Confidentiality...), Rule: why}
		sink, rule := f.Sink(e)
		if one.SinkRule = rule; sink != nil {
			one.Sink, one.Labels, one.To, one.Sensitive, one.TrustedArgs = sink.Kind, sink.Labels, sink.To, sink.Sensitive, sink.TrustedArgs
		}
		one.Declassified, one.DeclassifyRule = f.Declassified(e)
		out.Tools = append(out.Tools, one)
	}
	note := func(name string, fits func(e *catalog.Entry) bool) {
		if !slices.ContainsFunc(entries, fits) {
			out.Unused = append(out.Unused, name)
		}
	}
	for i, r := range rules.Label {
		note(rule("label", i), func(e *catalog.Entry) bool { return matches(r.Tool, r.Namespace, e) })
	}
	for i, r := range rules.Sinks {
		note(rule("sinks", i), func(e *catalog.Entry) bool { return matches(r.Tool, r.Namespace, e) })
	}
	for i, r := range rules.Declassify {
		note(rule("declassify", i), func(e *catalog.Entry) bool { return matches(r.Tool, "", e) })
	}
	return out
}

// Untrusted reports whether a stranger may have written results of the tool.
func (t *Tool) Untrusted() bool { return t.Integrity == mcpserver.Untrusted }

// Nothing reports whether the label says nothing.
func (r *Reading) Nothing() bool {
	return r.Integrity == mcpserver.Trusted && len(r.Confidentiality) == 0
}

// Reading is what the model of a session has read.
type Reading struct {
	Session         string   `json:"session"`
	Principal       string   `json:"principal"`
	Integrity       string   `json:"integrity"`
	Confidentiality []string `json:"confidentiality"`
	Sources         []Source `json:"sources"`
}
