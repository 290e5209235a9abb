package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of what a person is shown, in characters.
const (
	// allShown is the size of arguments, in bytes, up to which a person sees all of
	// them. Of larger ones they see the ends, and the answer begins as a no.
	allShown   = 4096
	shownHead  = 280 // of a value in larger arguments
	shownTail  = 120
	shownLines = 40 // arguments with a line of their own
	ShownName  = 80
)

// approve asks the person at the agent's client, by elicitation. Everything but
// a clear yes is a no.
func (c *Controls) approve(ctx context.Context, a *Act, s Subject, v verdict) error {
	r := a.Request
	switch {
	case r.IsNotification():
		return v.refusal(a, s, "a person has to approve it, and a message without an id has no answer to wait for")
	case !canElicit(r) && a.Direct:
		return v.refusal(a, s, "a person has to approve it: a client is asked that declares the elicitation capability in a session, here or at /mcp, and this one has not")
	case !canElicit(r):
		return v.refusal(a, s, "a person has to approve it, and this client cannot be asked (it does not declare the elicitation capability); ask the operator to allow it in the policy")
	}
	q := newQuestion(a, s, v, c.redactor.Known)
	answer, err := r.Peer.Call(ctx, "elicitation/create", q.params(), nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		refusal := v.refusal(a, s, "a person has to approve it, and asking this client failed")
		var own *mcp.Error
		if errors.As(err, &own) && own.Kind == mcp.KindNoBackChannel {
			refusal = v.refusal(a, s, "a person has to approve it, and there is no way to ask this client during a call; ask the operator to allow it in the policy")
		}
		refusal.Cause = err
		return refusal
	case !q.approved(answer):
		return v.refusal(a, s, "a person was asked and did not approve it")
	}
	return nil
}

// canElicit reports whether the client of a request declares that it can show a
// form to a person. A client that names modes must name that one.
func canElicit(r *mcp.Request) bool {
	_, capabilities := r.Session.Client()
	if r.Modern() {
		meta, err := r.Fields().Meta()
		if err != nil {
			return false
		}
		capabilities = meta.ClientCapabilities
	}
	elicitation := rawjson.Get(capabilities, "elicitation")
	if !rawjson.IsObject(elicitation) {
		return false
	}
	return rawjson.IsObject(rawjson.Get(elicitation, "form")) || rawjson.Get(elicitation, "url") == nil
}

// question is what a person is asked: a view of what runs. Each argument has a
// line of its own that no argument can imitate, with its length; nothing is cut
// without a word about it; and nothing is masked but secrets that weir has been
// configured with, which the person need not know to decide.
//
//	Allow tool_execute of files:drop#1f2e3d4c?
//	Server: files
//	The server says that this tool may destroy something.
//	Reason: it deletes
//	2 arguments, 43 bytes:
//	  path (5 characters): "/tmp/"
//	  options (21 characters): {"recursive":true,…}
type question struct {
	message string
	// hesitant says that not all could be shown: then an accepted form is not
	// enough, and a field of it that is false at first has to be set.
	hesitant bool
}

// newQuestion makes the question about an act. mask takes secrets out of a text.
func newQuestion(a *Act, s Subject, v verdict, mask func(string) string) question {
	args, size := shownArgs(a)
	view := view{mask: mask, whole: size <= allShown}
	view.list(args)
	var b strings.Builder
	b.WriteString("Allow " + shownText(a.name(s)) + "?")
	hesitant := !view.whole || view.hidden > 0
	if hesitant {
		fmt.Fprintf(&b, "\nNot everything fits here: the answer is no unless you set %q.", approveField)
	}
	if s.Entry != nil {
		b.WriteString("\nServer: " + shownText(s.Entry.Upstream))
		if s.Entry.Destructive {
			b.WriteString("\nThe server says that this tool may destroy something.")
		}
	}
	if v.reason != "" {
		b.WriteString("\nReason: " + text.Line(v.reason, text.MaxMessageChars))
	}
	if len(args) == 0 {
		b.WriteString("\nNo arguments.")
	} else {
		fmt.Fprintf(&b, "\n%s, %s:%s", amount(len(args), "argument"), amount(size, "byte"), view.lines.String())
	}
	if a.filled {
		b.WriteString("\nReferences ({\"$table\": …}, ddi://…) stand for rows, which are put in when it runs.")
	}
	return question{b.String(), hesitant}
}

// approveField is the field of the form that has to be set where not everything
// can be shown.
const approveField = "approve"

// params are those of elicitation/create.
func (q question) params() json.RawMessage {
	out := rawjson.AppendString([]byte(`{"message":`), q.message)
	if !q.hesitant {
		return append(out, `,"requestedSchema":{"type":"object","properties":{}}}`...)
	}
	return append(out, `,"requestedSchema":{"type":"object","properties":{"`+approveField+`":{"type":"boolean","title":"Approve",`+
		`"description":"Run it although not all of its arguments are shown.","default":false}},"required":["`+approveField+`"]}}`...)
}

// approved reports whether an answer is a clear yes.
func (q question) approved(answer json.RawMessage) bool {
	return rawjson.Text(rawjson.Get(answer, "action")) == "accept" &&
		(!q.hesitant || string(rawjson.GetPath(answer, "content", approveField)) == "true")
}

// shownArg is one line of a question.
type shownArg struct {
	name  string
	value []byte
}

// shownArgs are what runs: the arguments, and the params of the request that go
// along with them. size is how many bytes they have.
func shownArgs(a *Act) (args []shownArg, size int) {
	add := func(name string, value []byte) {
		args = append(args, shownArg{name, value})
		size += len(name) + len(value)
	}
	switch {
	case rawjson.IsObject(a.args):
		_ = rawjson.EachMember(a.args, func(m rawjson.Member) bool { // in weir's encoding: no error
			add(string(m.Key), m.Value)
			return true
		})
	case len(a.args) > 0 && a.Verb == VerbRead:
		add("uri", a.args)
	case len(a.args) > 0:
		add("arguments", a.args)
	}
	_ = rawjson.EachMember(a.Params, func(m rawjson.Member) bool {
		switch key := string(m.Key); key {
		case "name":
			if a.Direct && len(m.Value) > ShownName { // of which the first line has the beginning
				add("params.name", m.Value)
			}
		case "arguments", "uri":
		case "_meta":
			_ = rawjson.EachMember(m.Value, func(m rawjson.Member) bool {
				if key := string(m.Key); !ownMeta(key) {
					add("_meta."+key, m.Value)
				}
				return true
			})
		default:
			add("params."+key, m.Value)
		}
		return true
	})
	return args, size
}

// ownMeta reports whether a key of _meta is one of the protocol's or weir's own,
// which a person need not see.
func ownMeta(key string) bool {
	switch key {
	case "progressToken", "traceparent", "tracestate", "baggage":
		return true
	}
	return strings.HasPrefix(key, "io.modelcontextprotocol/") || strings.HasPrefix(key, "weir/")
}

// view writes the lines of a question.
type view struct {
	mask   func(string) string
	whole  bool // show values whole
	lines  strings.Builder
	hidden int // arguments without a line
}

func (w *view) list(args []shownArg) {
	hiddenBytes := 0
	for i, arg := range args {
		if i >= shownLines {
			w.hidden++
			hiddenBytes += len(arg.name) + len(arg.value)
			continue
		}
		w.lines.WriteString("\n  " + shownKey(arg.name) + " ")
		w.value(arg.value)
	}
	if w.hidden > 0 {
		fmt.Fprintf(&w.lines, "\n  … and %s with %s, not shown", amount(w.hidden, "argument"), amount(hiddenBytes, "byte"))
	}
}

// value writes a value, its length first. Of a text that is its own length, of
// anything else that of its JSON.
func (w *view) value(raw []byte) {
	text, quote := string(raw), ""
	if raw[0] == '"' {
		text, quote = rawjson.Text(raw), `"`
	}
	fmt.Fprintf(&w.lines, "(%s): ", amount(utf8.RuneCountInString(text), "character"))
	text = w.mask(text)
	if w.whole {
		w.lines.WriteString(quote + escapeShown(text, quote != "") + quote)
		return
	}
	head, tail, hidden := ends(text, quote != "")
	w.lines.WriteString(quote + head + quote)
	if hidden > 0 {
		fmt.Fprintf(&w.lines, " … %s not shown … %s%s%s", amount(hidden, "character"), quote, tail, quote)
	}
}

// ends returns both ends of a text as they are shown, and how many characters are
// between them.
func ends(text string, quoted bool) (head, tail string, hidden int) {
	var b strings.Builder
	at := 0
	for at < len(text) && b.Len() < shownHead {
		r, size := utf8.DecodeRuneInString(text[at:])
		b.WriteString(shownRune(r, quoted))
		at += size
	}
	rest, room := len(text), shownTail
	var parts []string
	for rest > at && room > 0 {
		r, size := utf8.DecodeLastRuneInString(text[at:rest])
		part := shownRune(r, quoted)
		parts = append(parts, part)
		room -= len(part)
		rest -= size
	}
	hidden = utf8.RuneCountInString(text[at:rest])
	for i := len(parts) - 1; i >= 0; i-- {
		if hidden == 0 {
			b.WriteString(parts[i])
		} else {
			tail += parts[i]
		}
	}
	return b.String(), tail, hidden
}

// shownRune is a character as a person sees it: what is invisible, or changes how
// its neighbours look, is an escape.
func shownRune(r rune, quoted bool) string {
	switch {
	case r == ' ':
		return " "
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case quoted && (r == '"' || r == '\\'):
		return `\` + string(r)
	case !unicode.IsPrint(r) || invisible(r):
		if r <= 0xffff {
			return fmt.Sprintf(`\u%04x`, r)
		}
		return fmt.Sprintf(`\u{%x}`, r)
	}
	return string(r)
}

func escapeShown(text string, quoted bool) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		b.WriteString(shownRune(r, quoted))
	}
	return b.String()
}

// shownText is a text outside of quotes, such as the name of a server.
func shownText(text string) string { return escapeShown(text, false) }

// shownKey is the name of an argument: in quotes where it is not made of letters,
// digits and the like, so that it cannot look like a line of the question.
func shownKey(name string) string {
	plain := name != "" && len(name) <= ShownName
	for _, r := range name {
		plain = plain && (r < utf8.RuneSelf && (unreserved(byte(r)) || r == '$'))
	}
	if plain {
		return name
	}
	n := utf8.RuneCountInString(name)
	if n <= ShownName {
		return `"` + escapeShown(name, true) + `"`
	}
	return `"` + escapeShown(text.Cut(name, ShownName), true) + `" … ` + amount(n-ShownName, "character") + ` of the name not shown`
}

// amount is a number of things, with a comma before each three digits.
func amount(n int, noun string) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if n == 1 {
		return s + " " + noun
	}
	return s + " " + noun + "s"
}
