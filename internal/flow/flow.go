package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/text"
)

// Flow has the rules of a configuration. A nil Flow has no labels and refuses nothing. It is safe for concurrent use.
type Flow struct {
	c       config.Flow
	when    []*authz.Expression // conditions of c.Label; nil: there are none
	servers map[string]server   // by name
	log     *slog.Logger
}

// New returns the Flow of a configuration and its servers, nil if it is off. The logger may be nil.
func New(c config.Flow, log *slog.Logger, servers ...*config.Server) *Flow {
	if c.Mode == config.FlowOff || c.Mode == "" {
		return nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Flow{c, conditionsOf(c.Label), serversOf(servers), log}
}

// Decides reports whether a call may be asked about or refused.
func (f *Flow) Decides() bool {
	return f != nil && (f.c.Mode == config.FlowAsk || f.c.Mode == config.FlowEnforce)
}

// Action is what becomes of a call.
type Action uint8

// The actions, the strictest last.
const (
	Run Action = iota
	Ask
	Refuse
)

// Verdict is the decision about a call.
type Verdict struct {
	Action Action
	Reason string // one line, for the agent and for a person
	Lines  string // for a person: the sources, and the arguments that stand in what they said; each starts with a line end
	Rule   string // that makes the tool a sink
}

// A Call is a call that is judged, or whose result gets a label.
type Call struct {
	Entry   *catalog.Entry
	Args    json.RawMessage
	URI     string   // of a resource that is read
	Odd     bool     // servers may read the URI in different ways
	Carried Label    // of rows that are put into the arguments
	Program *Program // that makes the call; nil: the model does

	listed bool // no call: an entry is asked about
}

// Judge decides about a call by what its session, or its program, has read.
func (f *Flow) Judge(ctx context.Context, s *Session, c Call) Verdict {
	sink, rule := f.Sink(c.Entry)
	if sink == nil {
		return Verdict{}
	}
	read := s.state(ctx, f.Decides())
	if c.Program != nil {
		read.Label = c.Program.label()
	}
	label := read.Label.Join(c.Carried)
	if label.Zero() {
		return Verdict{}
	}
	var leaks []string
	if sink.Kind == config.SinkEgress {
		leaks = slices.DeleteFunc(slices.Clone(label.Confidentiality), func(name string) bool { return slices.Contains(sink.Labels, name) })
	}
	if len(leaks) > 0 {
		return Verdict{Action: Refuse, Rule: rule, Lines: read.lines(c, f),
			Reason: "it sends data out, and this session has read what only " + strings.Join(leaks, ", ") + " may see"}
	}
	if to := stranger(sink, c.Args); to != "" && sink.Kind == config.SinkEgress && len(label.Confidentiality) > 0 {
		return Verdict{Action: Refuse, Rule: rule, Lines: read.lines(c, f),
			Reason: fmt.Sprintf("it sends what only %s may see to %s, whom %s.to does not name", strings.Join(label.Confidentiality, ", "), text.Line(to, 80), rule)}
	}
	if !label.Untrusted {
		return Verdict{}
	}
	suspect := f.suspect(s, sink, c)
	v := Verdict{Action: Ask, Rule: rule}
	switch {
	case c.Program != nil && !c.Program.late:
		if !c.Carried.Untrusted && suspect == "" {
			return Verdict{}
		}
		v.Reason = suspect
		if suspect == "" {
			v.Reason = "untrusted rows go into its arguments"
		}
	case sink.TrustedArgs && c.Program == nil && !c.Carried.Untrusted && suspect == "":
		return Verdict{}
	case c.Program != nil:
		v.Reason = "the program was written after untrusted text was read"
	default:
		v.Reason = "the model has read untrusted text, which may have asked for this call"
	}
	v.Lines = read.lines(c, f)
	if f.c.Mode == config.FlowEnforce {
		v.Action = Refuse
	}
	return v
}

// ArgsTrusted reports whether no sensitive argument of a call comes from untrusted text, as far as is known.
func (f *Flow) ArgsTrusted(s *Session, c Call) bool {
	sink, _ := f.Sink(c.Entry)
	if sink == nil {
		sink = &hinted
	}
	return !c.Carried.Untrusted && f.suspect(s, sink, c) == ""
}

// Bare reports whether a model sees only sizes and types of a result with a label, until it views a part.
func (f *Flow) Bare(l Label) bool {
	return f != nil && f.c.Summary == config.SummaryNames && l.Untrusted
}

// Observe logs what Judge would decide about a call in another mode.
func (f *Flow) Observe(ctx context.Context, s *Session, c Call) {
	if f == nil || f.c.Mode != config.FlowObserve {
		return
	}
	if v := f.Judge(ctx, s, c); v.Action != Run && s.first(c.Entry.ID) {
		would := "ask"
		if v.Action == Refuse {
			would = "refuse"
		}
		f.log.InfoContext(ctx, "flow labels would decide about a call, and are only observed", "tool_id", c.Entry.ID, "would", would, "rule", v.Rule, "reason", v.Reason)
	}
}

// suspect returns why a sensitive argument of a call is not trusted, "" if all are.
func (f *Flow) suspect(s *Session, sink *config.FlowSink, c Call) (why string) {
	eachLeaf(c.Args, func(path []string, leaf string, kind leafKind) bool {
		if len(sink.Sensitive) > 0 && (len(path) == 0 || !slices.Contains(sink.Sensitive, path[0])) {
			return true
		}
		if kind == leafTruth || leaf == "" || f.known(leaf) {
			return true
		}
		ok := false
		if c.Program != nil {
			ok = c.Program.trusts(leaf)
		} else {
			ok = s.hasNot(leaf)
		}
		if !ok {
			why = fmt.Sprintf("its argument %s (%s) does not come from a trusted source", text.Line(strings.Join(path, "."), 60), text.Line(leaf, 80))
		}
		return ok
	})
	return why
}

// stranger returns the first text of a sensitive argument to which a sink may not send labelled data, "" if there is none.
func stranger(sink *config.FlowSink, args json.RawMessage) (to string) {
	if len(sink.To) == 0 {
		return ""
	}
	eachLeaf(args, func(path []string, leaf string, kind leafKind) bool {
		named := len(path) > 0 && slices.Contains(sink.Sensitive, path[0]) || len(path) == 0
		if kind == leafText && named && !slices.ContainsFunc(sink.To, func(p string) bool { return text.Match(p, leaf) }) {
			to = cmp.Or(leaf, `""`)
		}
		return to == ""
	})
	return to
}

func (f *Flow) known(leaf string) bool {
	return slices.ContainsFunc(f.c.Known, func(pattern string) bool { return text.Match(pattern, leaf) })
}

// Declassify returns the label of a result of an entry that has a label before it is looked at. It is trusted if all that it
// says is of the types that flow.declassify names for the entry.
func (f *Flow) Declassify(l Label, e *catalog.Entry, result json.RawMessage) Label {
	if l.Untrusted {
		if types, _ := f.Declassified(e); len(types) > 0 && onlyTypes(types, result) {
			l.Untrusted = false
		}
	}
	return l
}

// lines returns the lines of a question that say what was read, and which arguments stand in it.
func (r state) lines(c Call, f *Flow) string {
	var b strings.Builder
	from := r.Read
	texts := r.texts
	if c.Program != nil {
		from, texts = c.Program.sources()
	}
	if len(from) > 0 {
		b.WriteString("\nWhat was read before:")
	}
	for _, one := range from {
		fmt.Fprintf(&b, "\n  %s, %s", text.Line(one.Tool, maxTool), one.At.UTC().Format(time.DateTime))
		if one.Head != "" {
			fmt.Fprintf(&b, ": %q", one.Head)
		}
	}
	if c.Carried.Untrusted {
		fmt.Fprintf(&b, "\n  rows of %s go into the arguments", text.Line(strings.Join(c.Carried.Sources, ", "), 200))
	}
	eachLeaf(c.Args, func(path []string, leaf string, kind leafKind) bool {
		if kind == leafTruth || len(leaf) < 2 {
			return true
		}
		for _, t := range texts {
			if stands(t.text, leaf) {
				fmt.Fprintf(&b, "\n! %s stands word for word in what %s said: %q", text.Line(strings.Join(path, "."), 60), text.Line(t.tool, maxTool), text.Line(leaf, 80))
				break
			}
		}
		return true
	})
	return b.String()
}
