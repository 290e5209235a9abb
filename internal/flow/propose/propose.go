package propose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// Tool is a tool as its server lists it.
type Tool struct {
	ID          string // as a rule names it: namespace:name, or its whole id if two tools have that
	Namespace   string
	Server      string // name in the configuration
	Name        string // at its server
	Description string

	InputSchema, OutputSchema json.RawMessage

	ReadOnly, OpenWorld bool // hints
}

// A Label is a proposed rule of flow.label.
type Label struct {
	config.FlowLabel
	Why string
}

// A Sink is a proposed rule of flow.sinks.
type Sink struct {
	config.FlowSink
	Why string
}

// A Declassify is a proposed rule of flow.declassify.
type Declassify struct {
	config.FlowDeclassify
	Why string
}

// Proposal is a proposed flow section, with the reason of each rule.
type Proposal struct {
	Tools      int
	Labels     []Label
	Sinks      []Sink
	Declassify []Declassify
}

// For returns the proposal for tools, in their order.
func For(tools []Tool) Proposal {
	p := Proposal{Tools: len(tools)}
	seen := map[string]bool{}
	var servers []Label
	for i := range tools {
		t := &tools[i]
		known := serverOf(t)
		if sink := sinkOf(t); sink != nil {
			p.Sinks = append(p.Sinks, *sink)
		}
		if strings.ContainsAny(t.ID, "*?") {
			continue // as a pattern, its name would trust other tools
		}
		if why := trusted(t, known); why != "" {
			p.Labels = append(p.Labels, Label{config.FlowLabel{Tool: t.ID, Integrity: "trusted"}, why})
		} else if types := closedTypes(t.OutputSchema); len(types) > 0 && !writes(t) {
			p.Declassify = append(p.Declassify, Declassify{config.FlowDeclassify{Tool: t.ID, Types: types}, "by the schema of its results"})
		}
		if known != nil && !known.trusted && !seen[t.Namespace] {
			servers = append(servers, Label{config.FlowLabel{Namespace: t.Namespace, Integrity: "untrusted"}, known.why})
		}
		seen[t.Namespace] = true
	}
	p.Labels = append(p.Labels, servers...) // the first rule that matches counts
	return p
}

// words returns the words of a name: get_current_day, get-current-day and getCurrentDay have three.
func words(name string) []string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			if lower {
				b.WriteByte(' ')
			}
			b.WriteRune(r | 0x20)
			lower = false
			continue
		}
		lower = r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		if lower || r > 127 {
			b.WriteRune(r)
		} else {
			b.WriteByte(' ')
		}
	}
	return strings.Fields(b.String())
}

// verb returns the word of a name, or else of the beginning of its description, that says what a tool does, and
// whether it only reads. A tool without a known word has none.
func verb(t *Tool) (word string, reads bool) {
	all := words(t.Name)
	for i, w := range all {
		if (w == "or" || w == "and") && i+1 < len(all) && !readVerbs[all[i+1]] {
			return all[i+1], false // get_or_create
		}
	}
	for _, w := range all {
		switch {
		case sendVerbs[w], writeVerbs[w]:
			return w, false
		case readVerbs[w]:
			return w, true
		}
	}
	if first := words(firstWord(t.Description)); len(first) == 1 {
		w := strings.TrimSuffix(first[0], "s")
		switch {
		case readVerbs[w], readVerbs[first[0]], readVerbs[strings.TrimSuffix(w, "e")]:
			return w, true
		}
	}
	return "", false
}

func firstWord(text string) string {
	if fields := strings.Fields(text); len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// writes reports whether a tool may change something.
func writes(t *Tool) bool {
	_, reads := verb(t)
	return !t.ReadOnly && !reads
}

// sinkOf returns the rule of a sink, nil for a tool that is none.
func sinkOf(t *Tool) *Sink {
	params := paramsOf(t.InputSchema)
	word, _ := verb(t)
	out := &Sink{FlowSink: config.FlowSink{Tool: t.ID, Kind: config.SinkEffect}}
	address := ""
	for _, p := range params {
		if w := words(p); slices.ContainsFunc(w, func(w string) bool { return urlWords[w] }) {
			address = p
		}
	}
	if !writes(t) {
		if address == "" {
			return nil
		}
		out.Kind, out.Sensitive = config.SinkEgress, []string{address}
		out.Why = "reads an address, and an address can carry data"
		return out
	}
	switch {
	case word == "":
		out.Why = "no word says that it only reads"
	default:
		out.Why = "its name says " + word
	}
	for _, p := range params {
		if !plainText(p) {
			out.Sensitive = append(out.Sensitive, p)
		}
		if w := words(p); address == "" && slices.ContainsFunc(w, func(w string) bool { return peopleWords[w] }) {
			address = p
		}
	}
	switch {
	case sendVerbs[word]:
		out.Kind = config.SinkEgress
	case address != "":
		out.Kind = config.SinkEgress
		out.Why += ", and " + address + " is where data may go"
	case t.OpenWorld:
		out.Kind = config.SinkEgress
		out.Why += ", and its server says that it is open-world"
	}
	return out
}

// plainText reports whether a parameter holds text or a time, and so does not decide whom a call concerns.
func plainText(param string) bool {
	w := words(param)
	return len(w) > 0 && textWords[w[len(w)-1]]
}

// paramsOf returns the names of the parameters of a schema, in its order.
func paramsOf(schema json.RawMessage) (names []string) {
	_ = rawjson.EachMember(rawjson.Get(schema, "properties"), func(m rawjson.Member) bool { // none: no parameters
		names = append(names, string(m.Key))
		return true
	})
	return names
}

// trusted returns why the results of a tool have no room for words of strangers, "" if they have.
func trusted(t *Tool, known *knownServer) string {
	if closed(t.OutputSchema) {
		return "its results are numbers and fixed values, by their schema"
	}
	if known != nil {
		if known.trusted {
			return known.why
		}
		return ""
	}
	if writes(t) {
		return ""
	}
	w := words(t.Name)
	if len(paramsOf(t.InputSchema)) > 0 || len(w) == 0 {
		return ""
	}
	last := w[len(w)-1]
	switch {
	case clockWords[last]:
		return "tells the time"
	case slices.Contains(w, "whoami"), ownWords[last] && slices.ContainsFunc(w, func(w string) bool { return selfWords[w] }):
		return "data of the caller itself"
	}
	return ""
}

// String returns the proposal as the flow section of a configuration, with a reason behind each rule.
func (p Proposal) String() string {
	var b strings.Builder
	b.WriteString("flow:\n  mode: ask\n")
	list := func(key string, n int) {
		if n > 0 {
			fmt.Fprintf(&b, "  %s:\n", key)
		}
	}
	list("label", len(p.Labels))
	for _, l := range p.Labels {
		key, value := "tool", l.Tool
		if value == "" {
			key, value = "namespace", l.Namespace
		}
		fmt.Fprintf(&b, "    - {%s: %s, integrity: %s} # %s\n", key, quote(value), l.Integrity, comment(l.Why))
	}
	list("sinks", len(p.Sinks))
	for _, s := range p.Sinks {
		fmt.Fprintf(&b, "    - {tool: %s, kind: %s", quote(s.Tool), s.Kind)
		if len(s.Sensitive) > 0 {
			fmt.Fprintf(&b, ", sensitive: [%s]", quoteAll(s.Sensitive))
		}
		fmt.Fprintf(&b, "} # %s\n", comment(s.Why))
	}
	list("declassify", len(p.Declassify))
	for _, d := range p.Declassify {
		fmt.Fprintf(&b, "    - {tool: %s, types: [%s]} # %s\n", quote(d.Tool), strings.Join(d.Types, ", "), comment(d.Why))
	}
	return b.String()
}

// comment returns a reason on one line: it may have the name of a parameter, which its server has chosen.
func comment(why string) string { return text.Line(why, 120) }

// quote returns a text as YAML reads it, whatever letters it has.
func quote(value string) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return `""`
	}
	return string(raw)
}

func quoteAll(list []string) string {
	out := make([]string, len(list))
	for i, one := range list {
		out[i] = quote(one)
	}
	return strings.Join(out, ", ")
}
