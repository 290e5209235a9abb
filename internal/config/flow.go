package config

import (
	"errors"
	"regexp"
	"slices"
	"strconv"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// Flow says what a model may do unasked after what it has read.
type Flow struct {
	Mode       FlowMode         `key:"mode" default:"observe" enum:"off,observe,ask,enforce" doc:"What happens to a call of a sink after the session has read untrusted text. observe: only the log says what would be asked or refused. ask: a person is asked. enforce: it is refused. In ask and enforce, a sink is refused that would send data out under a name of confidentiality that it does not list. off: no labels."`
	Summary    FlowSummary      `key:"summary" default:"full" enum:"full,names" doc:"What a model sees of an untrusted result before it asks for more. full: the result, or a description of one that is held back. names: each untrusted result is held back, whatever its size, and described by its size, its types and the names of the tool's outputSchema. The session is then untrusted only when the model views a part. Without tool_view, as in mode proxy, it is always full."`
	Label      []FlowLabel      `key:"label" empty:"same" doc:"Labels of results, in order; the first rule that matches counts. A result that no rule names has the label of its server (mcpServers.NAME.flow), or is untrusted and public."`
	Sinks      []FlowSink       `key:"sinks" empty:"same" doc:"Tools that change the world or send data out, in order; the first that matches counts. A tool that none of them names is a sink of kind egress if it is not read-only and its server is open-world, by its hints."`
	Declassify []FlowDeclassify `key:"declassify" empty:"same" doc:"Values of untrusted results that are trusted, because their type leaves no room for an instruction: a program may use them, and a result that has no others is trusted."`
	Known      []string         `key:"known" empty:"none" doc:"Values that are always trusted as arguments, such as addresses and domains of your own. * stands for any text, ? for one character."`
}

// FlowMode is what happens to a call of a sink.
type FlowMode string

// The modes.
const (
	FlowOff     FlowMode = "off"
	FlowObserve FlowMode = "observe"
	FlowAsk     FlowMode = "ask"
	FlowEnforce FlowMode = "enforce"
)

// FlowSummary is the form in which untrusted results are shown.
type FlowSummary string

// The forms.
const (
	SummaryFull  FlowSummary = "full"
	SummaryNames FlowSummary = "names"
)

// FlowLabel is the label of the results of the tools, resources and prompts that it matches.
type FlowLabel struct {
	Tool            string   `key:"tool" doc:"Pattern for the tool_id, or for the server's own name of a tool, prompt or resource. * stands for any text, ? for one character."`
	Namespace       string   `key:"namespace" doc:"Namespace of the tool."`
	When            string   `key:"when" doc:"Expression in CEL that must be true, over args, server and tool; args.uri is the URI of a resource. Where it fails, as a missing argument makes it, the rule counts, and the result is untrusted."`
	Integrity       string   `key:"integrity" default:"untrusted" enum:"trusted,untrusted" doc:"trusted: its text is of people or systems that may tell the model what to do."`
	Confidentiality []string `key:"confidentiality" empty:"none" doc:"Names of those who may see the result, such as hr. None: it is public."`
}

// FlowSink is a tool that changes the world or sends data out.
type FlowSink struct {
	Tool        string   `key:"tool" doc:"Pattern for the tool_id, or for the server's own name of the tool."`
	Namespace   string   `key:"namespace" doc:"Namespace of the tool."`
	Kind        string   `key:"kind" default:"effect" enum:"effect,egress,none" doc:"effect: it changes something. egress: it also sends data out. none: it is no sink, whatever its hints say."`
	Labels      []string `key:"labels" empty:"none" doc:"Names of confidentiality that an egress sink may send out."`
	To          []string `key:"to" empty:"refused" doc:"To whom labels may leave: each text among the sensitive arguments must match one of these patterns. Default: anyone. * stands for any text, ? for one character."`
	Sensitive   []string `key:"sensitive" empty:"same" doc:"Arguments that decide whom the call concerns or how much, such as recipients or amount. In a program they have to be trusted, and the others need not. Default: all arguments."`
	TrustedArgs bool     `key:"trusted_args" default:"false" doc:"A single call runs unasked if no sensitive argument stands in untrusted text of the session. It is weaker than a question: flow.md shows the attack that passes."`
}

// FlowDeclassify names values of closed types in the results of tools.
type FlowDeclassify struct {
	Tool  string   `key:"tool" doc:"Pattern for the tool_id, or for the server's own name of the tool."`
	Types []string `key:"types" empty:"refused" doc:"number: numbers and truth values. id: texts of at most 64 letters, digits, - and _ without spaces, under a key that is id or ends with _id. name: such texts under any key."`
}

// The kinds of sinks, and the types that are declassified.
const (
	SinkEffect = "effect"
	SinkEgress = "egress"
	SinkNone   = "none"

	TypeNumber = "number"
	TypeID     = "id"
	TypeName   = "name"
)

// maxFlowNames bounds the names of confidentiality, and with them the label of a session.
const maxFlowNames = 16

// FlowName reports whether a label may have a name of confidentiality.
func FlowName(name string) bool { return flowName.MatchString(name) }

var flowName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`)

// checkFlow refuses rules that match nothing, and names that a label does not hold.
func checkFlow(d *decoder, f *Flow, servers []*Server) {
	var all []string
	// check refuses names that a label does not hold.
	check := func(path string, list []string) {
		for _, name := range list {
			if !FlowName(name) {
				d.Fail(d.At(path), path, "%s: a name has 1 to 32 letters, digits, - and _", path)
			}
		}
		all = append(all, list...)
	}
	about := func(path, tool, namespace string) {
		if tool == "" && namespace == "" {
			d.Fail(d.At(path), path, "%s names no tool; give tool or namespace", path)
		}
	}
	for i, r := range f.Label {
		path := "flow.label[" + strconv.Itoa(i) + "]"
		about(path, r.Tool, r.Namespace)
		check(strict.Join(path, "confidentiality"), r.Confidentiality)
		checkFlowCondition(d.Decoder, &r, path)
	}
	for _, s := range servers {
		at := d.paths[s]
		d.Within(at, func() { check(strict.Join(at, "flow.confidentiality"), s.Flow.Confidentiality) })
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n > maxFlowNames {
		d.Fail(d.At("flow.label"), "flow.label", "flow.label and the servers have %d names of confidentiality; a session's label has at most %d", n, maxFlowNames)
	}
	for i, r := range f.Sinks {
		path := "flow.sinks[" + strconv.Itoa(i) + "]"
		about(path, r.Tool, r.Namespace)
		check(strict.Join(path, "labels"), r.Labels)
		if len(r.Labels) > 0 && r.Kind != SinkEgress {
			key := strict.Join(path, "labels")
			d.Fail(d.At(key), key, "%s has no effect without kind: egress", key)
		}
		switch key := strict.Join(path, "to"); {
		case len(r.To) == 0:
		case len(r.Labels) == 0:
			d.Fail(d.At(key), key, "%s has no effect without labels: nothing may leave", key)
		case len(r.Sensitive) == 0:
			d.Fail(d.At(key), key, "%s needs sensitive: the names of the arguments that say to whom", key)
		}
	}
	for i, r := range f.Declassify {
		path := "flow.declassify[" + strconv.Itoa(i) + "]"
		about(path, r.Tool, "")
		for _, one := range r.Types {
			if one != TypeNumber && one != TypeID && one != TypeName {
				d.Fail(d.At(path), strict.Join(path, "types"), "%s.types: %q is none of number, id and name", path, strict.Clip(one))
			}
		}
		if len(r.Types) == 0 {
			d.Fail(d.At(path), path, "%s has no types; give number, id or name", path)
		}
	}
}

// checkFlowCondition refuses an expression that is wrong, or that looks at what a label must not depend on.
func checkFlowCondition(d *strict.Decoder, r *FlowLabel, path string) {
	if r.When == "" {
		return
	}
	key := strict.Join(path, "when")
	x, err := authz.Compile(r.When)
	var syntax *authz.SyntaxError
	switch {
	case errors.As(err, &syntax):
		d.Fail(d.At(key), key, "%s: line %d, column %d of the expression: %s", key, syntax.Line, syntax.Column, syntax.Message)
	case err != nil:
		d.Fail(d.At(key), key, "%s: %v", key, err)
	case x.Uses()&^authz.OfEntry != 0:
		d.Fail(d.At(key), key, "%s looks at more than args, server and tool, and a label must be the same for all callers", key)
	case len(x.Hints()) > 0 && r.Integrity == mcpserver.Trusted:
		d.Warn(d.At(key), key, "%s trusts results by what a server says of its own tools, which weir does not verify; name the tools where it matters", key)
	}
}
