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

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of the text shown to a person, in characters.
const (
	// allShown is the size of arguments, in bytes, up to which a person sees all of them. Larger
	// ones are shown in parts, and the form then starts with "no".
	allShown   = 4096
	shownHead  = 280 // of a value in larger arguments
	shownTail  = 120
	shownLines = 40 // arguments shown on a line of their own
	ShownName  = 80
)

// approve asks the person at the agent's client by elicitation, or an operator if the client cannot be
// asked. Only an explicit yes approves the call. It returns what was asked.
func (c *Controls) approve(ctx context.Context, a *Act, s Subject, v verdict, by judgement) (question, error) {
	q := newQuestion(a, s, v, c.redactor.Known)
	if a.Run.use(s) {
		return q, nil
	}
	about := by.digest()
	if a.Run != nil && a.Verb != VerbRun {
		about = bridge.Begun
	}
	shown := q
	shown.ofRun(a, c.redactor.Known)
	defer a.Run.waits()()
	more, err := c.ask(bridge.Approval(ctx, about), a, s, v, shown)
	a.Run.grant(s, more)
	return q, err
}

// ofRun adds to a question what a person has to know of the program that asks.
func (q *question) ofRun(a *Act, mask func(string) string) {
	lines, whole := a.Run.describe(a.Verb)
	if !whole && !q.hesitant {
		first, rest, _ := strings.Cut(q.message, "\n")
		q.hesitant, q.message = true, first+unlessSet+"\n"+rest
	}
	q.message += mask(lines)
	if a.Run != nil && a.Verb != VerbRun {
		q.most = a.Run.Most
	}
}

// ask returns how many further calls of the tool the person allows to the program that asks.
func (c *Controls) ask(ctx context.Context, a *Act, s Subject, v verdict, q question) (more int, err error) {
	r := a.Request
	switch {
	case r.IsNotification():
		return 0, v.refusal(a, s, "a person has to approve it, and a message without an id has no answer to wait for")
	case !canElicit(r) && a.Direct:
		return c.operators.ask(ctx, a, s, v, q, v.refusal(a, s, "a person has to approve it: a client is asked that declares the elicitation capability in a session, here or at /mcp, and this one has not"))
	case !canElicit(r):
		return c.operators.ask(ctx, a, s, v, q, v.refusal(a, s, "a person has to approve it, and this client cannot be asked (it does not declare the elicitation capability); ask the operator to allow it in the policy"))
	}
	answer, err := r.Peer.Call(ctx, "elicitation/create", q.params(), nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		refusal := v.refusal(a, s, "a person has to approve it, and asking this client failed")
		var own *mcp.Error
		if errors.As(err, &own) && own.Kind == mcp.KindNoBackChannel {
			refusal = v.refusal(a, s, "a person has to approve it, and there is no way to ask this client during a call; ask the operator to allow it in the policy")
			refusal.Cause = err
			return c.operators.ask(ctx, a, s, v, q, refusal)
		}
		refusal.Cause = err
		return 0, refusal
	case !q.approved(answer):
		return 0, v.refusal(a, s, "a person was asked and did not approve it")
	}
	return q.more(answer), nil
}

// canElicit reports whether the client of a request can show a form to a person. A client that
// lists modes must list the form mode.
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

// question is the text shown to a person: a description of what will run. Each argument has a line
// of its own, with its length, that no argument can imitate. Each cut is marked. Only secrets from
// weir's configuration are masked, because the decision does not depend on them.
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
	// hesitant means that parts are not shown. Accepting the form is then not enough: the person
	// must also set a field that is initially false.
	hesitant bool
	// most is how many calls of the tool the person may allow to the program that asks; 0: no program asks.
	most int
}

// newQuestion returns the question about an act. mask removes secrets from a text.
func newQuestion(a *Act, s Subject, v verdict, mask func(string) string) question {
	args, size := shownArgs(a)
	view := view{mask: mask, whole: size <= allShown}
	view.list(args)
	var b strings.Builder
	b.WriteString("Allow " + shownText(a.name(s)) + "?")
	hesitant := !view.whole || view.hidden > 0
	if hesitant {
		b.WriteString(unlessSet)
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
	b.WriteString(mask(v.lines))
	if len(args) == 0 {
		b.WriteString("\nNo arguments.")
	} else {
		fmt.Fprintf(&b, "\n%s, %s:%s", amount(len(args), "argument"), amount(size, "byte"), view.lines.String())
	}
	if a.filled {
		b.WriteString("\nReferences ({\"$table\": …}, ddi://…) stand for rows, which are put in when it runs.")
	}
	return question{message: b.String(), hesitant: hesitant}
}

// approveField is the field that the person must set if parts are not shown, and unlessSet the line
// that says so.
const (
	approveField = "approve"
	unlessSet    = "\nNot everything fits here: the answer is no unless you set \"" + approveField + "\"."
)

// callsField is the field in which a person allows a program several calls of a tool.
const callsField = "calls"

// params returns the params of elicitation/create.
func (q question) params() json.RawMessage {
	w := rawjson.NewWriter(nil).Object().Key("message").String(q.message).Key("requestedSchema").Object().Key("type").String("object").Key("properties").Object()
	if q.hesitant {
		w.Key(approveField).Raw([]byte(`{"type":"boolean","title":"Approve","description":"Run it although not all of its arguments are shown.","default":false}`))
	}
	if q.most > 1 {
		w.Key(callsField).Raw(fmt.Appendf(nil, `{"type":"integer","title":"Calls","description":"How many calls of this tool the program may make in this run, whatever their arguments, this one included.","minimum":1,"maximum":%d,"default":1}`, q.most))
	}
	w.EndObject()
	if q.hesitant {
		w.Key("required").Strings([]string{approveField})
	}
	return w.EndObject().EndObject().Bytes()
}

// more returns how many calls after this one an answer allows.
func (q question) more(answer json.RawMessage) int {
	n, ok := rawjson.Int(rawjson.GetPath(answer, "content", callsField))
	if !ok {
		return 0
	}
	return max(0, min(n, q.most)-1)
}

// approved reports whether an answer is an explicit yes.
func (q question) approved(answer json.RawMessage) bool {
	return rawjson.Text(rawjson.Get(answer, "action")) == "accept" &&
		(!q.hesitant || string(rawjson.GetPath(answer, "content", approveField)) == "true")
}

// shownArg is one line of a question.
type shownArg struct {
	name  string
	value []byte
}

// shownArgs returns what will run: the arguments, and the params of the request that accompany
// them. size is their length in bytes.
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
	case a.Verb == VerbRun && a.Run != nil && len(a.Run.Input) > 0:
		add("input", a.Run.Input)
	case len(a.args) > 0 && a.Verb == VerbRead:
		add("uri", a.args)
	case len(a.args) > 0:
		add("arguments", a.args)
	}
	_ = rawjson.EachMember(a.Params, func(m rawjson.Member) bool {
		switch key := string(m.Key); key {
		case "name":
			if a.Direct && len(m.Value) > ShownName { // its beginning is in the first line
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

// ownMeta reports whether a _meta key belongs to the protocol or to weir. Such keys are not shown.
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

// value writes a value after its length: the length of a string itself, or of the JSON of any other
// value.
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

// ends returns both ends of a text as they are shown, and the number of characters between them.
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

// shownRune returns the visible form of a character: an escape if it is invisible or changes how
// its neighbours look.
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

// shownText returns the visible form of a text outside quotes, such as the name of a server.
func shownText(text string) string { return escapeShown(text, false) }

// shownKey returns the visible form of an argument's name. It is quoted unless it consists of
// letters, digits and similar characters, so that it cannot look like a line of the question.
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

// amount formats a number of things, with thousands separators.
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
