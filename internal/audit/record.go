package audit

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Kind is the subject of a record.
type Kind string

// The kinds of records about callers and their requests (spec/audit §2).
const (
	SignIn     Kind = "sign-in"    // a caller was identified, or signed in at a server
	Refusal    Kind = "refusal"    // a request that was not served
	Begin      Kind = "begin"      // a call is about to reach a server
	End        Kind = "end"        // the outcome of a call
	View       Kind = "view"       // a part of a result that was held back is shown
	Approval   Kind = "approval"   // a person decided about a call
	Credential Kind = "credential" // a credential was stored, renewed or removed
	Definition Kind = "definition" // the definitions of a server changed
	Config     Kind = "config"     // a configuration was applied
	Network    Kind = "network"    // a server in a sandbox reached a host, or was refused one
	Role       Kind = "role"       // an operator used the right to operate
)

// The kinds of records that the log itself writes (spec/audit §3).
const (
	segmentKind   Kind = "segment"
	startKind     Kind = "start"
	stopKind      Kind = "stop"
	signatureKind Kind = "signature"
	droppedKind   Kind = "dropped"
	recoveredKind Kind = "recovered"
	deletedKind   Kind = "deleted"
)

// A Record is one thing that happened. Empty members are left out. A Record must not change after it
// was handed to a Log.
type Record struct {
	Time time.Time // the zero time means now
	Kind Kind

	Principal string
	Issuer    string
	Client    string // the OAuth client
	IP        string
	Session   string // a tag of the session, never its id
	Trace     string // the trace id

	Call   string // joins the start of a call with its end
	Run    string // the run of a program that the record is about, or whose call it is
	Method string
	Server string
	ToolID string

	Decision string // of the policy: "allow", "deny", "approved"
	Rule     string
	Outcome  string // "ok", "tool_error", or the code of an error
	Took     time.Duration

	// Args is a JSON value: the arguments in the form that Arguments made, or nil.
	Args []byte
	// Result identifies the result: its size and hash, as Digest made it.
	Result     string
	Labels     []string
	Credential string // which credential the server saw: its name, never its value

	Handle   string // of a held result
	Selector []byte // a JSON value: the part of it that was shown
	Detail   string // one line
	Count    int64  // how many, where the record stands for several
}

// maxText bounds the bytes of each text in a record. Callers choose some of them, such as names of
// unknown tools.
const maxText = 512

// appendJSON appends the record's members, from time on, without the closing brace.
func (r *Record) appendJSON(dst []byte) []byte {
	dst = append(dst, `,"time":"`...)
	dst = r.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	text := func(key, value string) {
		if value == "" {
			return
		}
		dst = append(append(append(dst, ',', '"'), key...), '"', ':')
		dst = rawjson.AppendString(dst, clip(value))
	}
	raw := func(key string, value []byte) {
		if len(value) > 0 {
			dst = appendValue(append(append(append(dst, ',', '"'), key...), '"', ':'), value)
		}
	}
	text("kind", string(r.Kind))
	text("principal", r.Principal)
	text("issuer", r.Issuer)
	text("client", r.Client)
	text("ip", r.IP)
	text("session", r.Session)
	text("trace", r.Trace)
	text("call", r.Call)
	text("run", r.Run)
	text("method", r.Method)
	text("server", r.Server)
	text("tool_id", r.ToolID)
	text("decision", r.Decision)
	text("rule", r.Rule)
	text("outcome", r.Outcome)
	if r.Kind == End || r.Took > 0 {
		dst = append(dst, `,"ms":`...)
		dst = strconv.AppendFloat(dst, float64(r.Took.Microseconds())/1000, 'f', -1, 64)
	}
	raw("args", r.Args)
	text("result", r.Result)
	if len(r.Labels) > 0 {
		dst = append(dst, `,"labels":[`...)
		for i, label := range r.Labels {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = rawjson.AppendString(dst, clip(label))
		}
		dst = append(dst, ']')
	}
	text("credential", r.Credential)
	text("handle", r.Handle)
	raw("selector", r.Selector)
	text("detail", r.Detail)
	if r.Count != 0 {
		dst = append(dst, `,"count":`...)
		dst = strconv.AppendInt(dst, r.Count, 10)
	}
	return dst
}

// appendValue appends a JSON value on one line. Anything else becomes a text: a line that is no JSON
// would make the whole log unreadable.
func appendValue(dst, value []byte) []byte {
	// A value in a record is one level deeper than by itself.
	start := len(dst)
	dst = append(append(append(dst, '['), value...), ']')
	if bytes.IndexByte(value, '\n') < 0 && rawjson.Valid(value) == nil && rawjson.Valid(dst[start:]) == nil {
		copy(dst[start:], value)
		return dst[:start+len(value)]
	}
	return rawjson.AppendString(dst[:start], clip(string(value)))
}

// clip cuts a text at maxText bytes, at the boundary of a character.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
