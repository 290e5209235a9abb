package mcp

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Lifecycle implements the part of a server that is the same for every surface: the handshake of
// the legacy era, server/discover of the modern one, ping and logging/setLevel. Next serves
// everything else. Lifecycle adds to its results the members that the modern era requires.
type Lifecycle struct {
	// ServerInfo is the raw {"name","version",…} object.
	ServerInfo json.RawMessage
	// Instructions tell the model how to use the server; may be empty.
	Instructions string
	// Capabilities returns the raw capabilities object for the version of r.
	Capabilities func(r *Request) json.RawMessage
	// Next serves everything else.
	Next Handler
}

// Serve implements Handler.
func (l *Lifecycle) Serve(ctx context.Context, r *Request) (json.RawMessage, error) {
	switch r.Method {
	case "initialize":
		return l.initialize(r)
	case "notifications/initialized":
		return nil, nil
	}
	if r.Modern() {
		switch r.Method {
		case "server/discover":
			return l.discover(r), nil
		case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
			// Removed by 2026-07-28.
			return nil, MethodNotFound(r.Method)
		}
		result, err := l.Next.Serve(ctx, r)
		if err != nil || r.IsNotification() {
			return nil, err
		}
		return Complete(result, l.ServerInfo), nil
	}
	switch r.Method {
	case "ping":
		return json.RawMessage("{}"), nil
	case "server/discover":
		return nil, Errorf(KindInvalidParams, "server/discover needs params._meta[%q]", MetaVersion)
	}
	if r.Version == "" && !r.IsNotification() {
		return nil, Errorf(KindInvalidRequest, "%s before initialize: send initialize first, or put params._meta[%q] on every request", r.Method, MetaVersion)
	}
	if r.Method == "logging/setLevel" {
		level := rawjson.Text(rawjson.Get(r.Params, "level"))
		if LogSeverity(level) < 0 {
			return nil, Errorf(KindInvalidParams, "level must be one of %v", logLevels)
		}
		r.Session.SetLogLevel(level)
		return json.RawMessage("{}"), nil
	}
	return l.Next.Serve(ctx, r)
}

func (l *Lifecycle) initialize(r *Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	if r.Version != "" {
		return nil, Errorf(KindInvalidRequest, "this session is initialized already")
	}
	version, err := Handshaken(r)
	if err != nil {
		return nil, err
	}
	probe := *r
	probe.Version = version
	out := append([]byte(`{"protocolVersion":`), rawjson.Quote(version)...)
	return l.hello(out, &probe), nil
}

// Handshaken reads the params of an initialize request into its session and returns the version to
// answer.
func Handshaken(r *Request) (version string, err error) {
	var asked, capabilities, info []byte
	if err := rawjson.Scan(r.Params, rawjson.Key("protocolVersion", &asked), rawjson.Key("capabilities", &capabilities), rawjson.Key("clientInfo", &info)); err != nil {
		return "", Errorf(KindInvalidParams, "initialize: %v", err)
	}
	requested, err := rawjson.String(asked)
	if err != nil {
		return "", Errorf(KindInvalidParams, "initialize: protocolVersion must be a string")
	}
	version = negotiate(requested)
	r.Session.SetVersion(version)
	r.Session.SetClient(info, capabilities)
	return version, nil
}

func (l *Lifecycle) discover(r *Request) json.RawMessage {
	out := []byte(`{"supportedVersions":[`)
	for i, v := range Versions {
		if i > 0 {
			out = append(out, ',')
		}
		out = rawjson.AppendString(out, v)
	}
	out = append(out, ']')
	return Complete(Cacheable(l.hello(out, r), 0, "private"), l.ServerInfo)
}

// hello finishes an initialize or discover result.
func (l *Lifecycle) hello(out []byte, r *Request) json.RawMessage {
	out = append(out, `,"capabilities":`...)
	out = append(out, l.Capabilities(r)...)
	if !r.Modern() {
		out = append(out, `,"serverInfo":`...)
		out = append(out, l.ServerInfo...)
	}
	if l.Instructions != "" {
		out = append(out, `,"instructions":`...)
		out = rawjson.AppendString(out, l.Instructions)
	}
	return append(out, '}')
}

// Complete adds to a result the members that 2026-07-28 requires: resultType "complete" and, if
// serverInfo is not empty, the server's info in _meta. Existing members stay. A result that has one
// of the two twice is unchanged.
func Complete(result, serverInfo json.RawMessage) json.RawMessage {
	if len(result) == 0 {
		result = json.RawMessage("{}")
	}
	var typed, meta rawjson.Member
	last, twice := 0, false
	err := rawjson.EachMember(result, func(m rawjson.Member) bool {
		last = m.End
		slot := &meta
		switch string(m.Key) {
		case "resultType":
			slot = &typed
		case "_meta":
		default:
			return true
		}
		twice = slot.Value != nil
		*slot = m
		return !twice
	})
	if err != nil || twice {
		return result
	}
	var head, info []byte // the first members, and the addition to _meta or the whole _meta
	if typed.Value == nil {
		head = []byte(`"resultType":"complete"`)
	}
	at := last // the position for info
	switch {
	case len(serverInfo) == 0:
	case meta.Value == nil:
		info = append(append([]byte(`"_meta":{"`+metaServerInfo+`":`), serverInfo...), '}')
	case rawjson.Get(meta.Value, metaServerInfo) == nil:
		if set, err := rawjson.Set(meta.Value, metaServerInfo, serverInfo); err == nil {
			info, at = set, meta.End
		}
	}
	if head == nil && info == nil {
		return result
	}
	// A result may be large: copy it once.
	open := rawjson.SkipSpace(result, 0) + 1
	at = max(at, open)
	out := make([]byte, 0, len(result)+len(head)+len(info)+2)
	out = append(append(out, result[:open]...), head...)
	if head != nil && last > 0 {
		out = append(out, ',')
	}
	switch {
	case info == nil:
		at = open
	case meta.Value != nil:
		out = append(append(out, result[open:meta.End-len(meta.Value)]...), info...)
	default:
		out = append(out, result[open:at]...)
		if head != nil || last > 0 {
			out = append(out, ',')
		}
		out = append(out, info...)
	}
	return append(out, result[at:]...)
}

// Cacheable adds the caching members that 2026-07-28 requires of discover, the four lists and
// resources/read. Existing members stay.
func Cacheable(result json.RawMessage, ttlMs int, scope string) json.RawMessage {
	var ttl, cache []byte
	if rawjson.Scan(result, rawjson.Key("ttlMs", &ttl), rawjson.Key("cacheScope", &cache)) != nil {
		return result
	}
	if cache == nil {
		result = prepend(result, `"cacheScope":"`+scope+`"`)
	}
	if ttl == nil {
		result = prepend(result, `"ttlMs":`+strconv.Itoa(ttlMs))
	}
	return result
}

// prepend inserts a member, written as JSON text, at the start of an object.
func prepend(obj json.RawMessage, member string) json.RawMessage {
	i := rawjson.SkipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return obj
	}
	out := make([]byte, 0, len(obj)+len(member)+1)
	out = append(out, '{')
	out = append(out, member...)
	if j := rawjson.SkipSpace(obj, i+1); j < len(obj) && obj[j] != '}' {
		out = append(out, ',')
	}
	return append(out, obj[i+1:]...)
}

// logLevels are the levels of notifications/message, least severe first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogSeverity returns a rank of a log level. A greater rank is more severe; -1 means that level is
// unknown.
func LogSeverity(level string) int {
	for i, l := range logLevels {
		if l == level {
			return i
		}
	}
	return -1
}

// ClientCapabilities returns the capabilities that the sender of r declared: in the request itself
// (modern era) or in the handshake (legacy era). It returns nil if there are none.
func (r *Request) ClientCapabilities() json.RawMessage {
	if r.Modern() {
		m, err := r.Fields().Meta()
		if err != nil {
			return nil
		}
		return m.ClientCapabilities
	}
	_, caps := r.Session.Client()
	return caps
}
