package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
)

// link is one live connection.
type link struct {
	slot  *slot
	peer  mcp.Peer
	hello mcp.Hello
	http  bool // streamable HTTP
	pid   int  // process id of the program, or 0
	done  <-chan struct{}
	err   func() error // the reason for its end
	close func()       // waits for all of its goroutines
	agent *agentTasks  // nil unless the server is an agent server

	users   int           // calls over it; guarded by admission.mu
	retired chan struct{} // closed when users becomes 0; nil while in use; guarded by admission.mu
}

// Hello implements subscription.Conn.
func (l *link) Hello() mcp.Hello { return l.hello }

// Call implements subscription.Conn. The error is mcp.ErrNotSent if the connection had ended before.
func (l *link) Call(ctx context.Context, timeout time.Duration, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if !mayBeLarge(method) {
		ctx = memory.WithoutScope(ctx)
	}
	params, err := l.adapt(ctx, method, params)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return nil, l.notSent()
	default:
	}
	if l.agent != nil {
		if offer, _ := mcptask.OfferOf(ctx); offer.Agent {
			return l.agent.call(ctx, timeout, method, params)
		}
	}
	limited := ctx
	if timeout > 0 {
		var lim *timeLimit
		limited, lim = limit(ctx, timeout, back)
		defer lim.end()
		if back != nil {
			back = lim
		}
	}
	back, own := l.slot.line.Own(mcp.Caller(ctx), back)
	result, err := l.peer.Call(limited, method, params, back)
	own.End(result, err)
	if err != nil && timeout > 0 && limited.Err() != nil && ctx.Err() == nil && !mcp.IsAnswer(err) {
		srv := l.slot.srv
		hint := ""
		if timeout == srv.cfg.Timeout {
			hint = "; mcpServers." + srv.name + ".timeout allows more"
		}
		return nil, mcp.Errorf(mcp.KindUpstreamTimeout, "%s did not answer %s within %s%s", srv.who, method, timeout, hint)
	}
	return result, err
}

// ended reports whether the connection has ended.
func (l *link) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *link) notSent() error {
	err := l.err()
	return &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: err.Error(), Err: errors.Join(mcp.ErrNotSent, err)}
}

func (l *link) notify(ctx context.Context, method string, params json.RawMessage) error {
	params, err := l.adapt(ctx, method, params)
	if err != nil {
		return err
	}
	select {
	case <-l.done:
		return l.notSent()
	default:
	}
	l.slot.line.Uses(mcp.Caller(ctx))
	return l.peer.Notify(ctx, method, params)
}

// saysModern reports whether params belong to a request of the modern era.
func saysModern(params json.RawMessage) bool {
	if !rawjson.MayHold(params, "_meta") {
		return false
	}
	return mcp.IsModern(rawjson.Text(rawjson.GetPath(params, "_meta", mcp.MetaVersion)))
}

// adapt converts params to the connection's era, and offers the server to answer with a task if the
// caller understands tasks.
func (l *link) adapt(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	offer, tasks := mcptask.OfferOf(ctx)
	if !l.hello.Modern {
		params, err := stripModern(params)
		if err == nil && tasks && method == "tools/call" {
			params, err = offer.Augment(params, l.hello.Capabilities)
		}
		return params, err
	}
	tasks = tasks && mcptask.Declares(l.hello.Capabilities)
	if rawjson.MayHold(params, "_meta") && rawjson.GetPath(params, "_meta", mcp.MetaVersion) != nil {
		if tasks {
			return declareTasks(params)
		}
		return params, nil
	}
	info, level := l.slot.srv.opts.ClientInfo, ""
	capabilities := json.RawMessage("{}")
	if caller := mcp.Caller(ctx); caller != nil {
		level = caller.LogLevel()
		own, can := caller.Client()
		if rawjson.IsObject(own) {
			info = own
		}
		capabilities = askable(can)
	}
	if tasks {
		var err error
		if capabilities, err = mcptask.Declare(capabilities); err != nil {
			return nil, err
		}
	}
	return addModern(params, l.hello.Version, info, capabilities, level)
}

// declareTasks adds the extension for tasks to the capabilities of a modern client.
func declareTasks(params json.RawMessage) (json.RawMessage, error) {
	declared := rawjson.GetPath(params, "_meta", mcp.MetaClientCapabilities)
	if !rawjson.IsObject(declared) {
		declared = []byte("{}")
	}
	capabilities, err := mcptask.Declare(declared)
	if err == nil {
		params, err = rawjson.SetPath(params, capabilities, "_meta", mcp.MetaClientCapabilities)
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params._meta: %v", err)
	}
	return params, nil
}

// legacyForeign are the keys that a legacy server must not see: it might take the request for a
// modern one.
var legacyForeign = []string{mcp.MetaVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel}

// stripModern removes the members of the modern era. All other bytes stay.
func stripModern(params json.RawMessage) (json.RawMessage, error) {
	if !rawjson.MayHold(params, "_meta") {
		return params, nil
	}
	meta := rawjson.Get(params, "_meta")
	if !rawjson.IsObject(meta) {
		return params, nil
	}
	var found [4][]byte
	stripped, err := meta, rawjson.Fields(meta, legacyForeign, found[:])
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params._meta: %v", err)
	}
	for i, key := range legacyForeign {
		if found[i] == nil {
			continue
		}
		if stripped, err = rawjson.Delete(stripped, key); err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "params._meta: %v", err)
		}
	}
	switch {
	case len(stripped) == len(meta):
		return params, nil
	case rawjson.IsEmptyObject(stripped):
		params, err = rawjson.Delete(params, "_meta")
	default:
		params, err = rawjson.Set(params, "_meta", stripped)
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	return params, nil
}

// askable returns the capabilities that a modern server sees for a legacy client: the declared ones
// that answer questions. The caller on the client's behalf puts the questions to it.
func askable(declared json.RawMessage) json.RawMessage {
	keys := []string{"sampling", "elicitation", "roots"}
	var found [3][]byte
	out := []byte{'{'}
	if rawjson.Fields(declared, keys, found[:]) == nil {
		for i, v := range found {
			if rawjson.IsObject(v) {
				if len(out) > 1 {
					out = append(out, ',')
				}
				out = append(append(rawjson.AppendString(out, keys[i]), ':'), v...)
			}
		}
	}
	return append(out, '}')
}

// addModern adds the members of the modern era for a legacy client or for weir itself.
func addModern(params json.RawMessage, version string, info, capabilities json.RawMessage, level string) (json.RawMessage, error) {
	meta := rawjson.Get(params, "_meta")
	if !rawjson.IsObject(meta) {
		meta = []byte("{}")
	}
	add := []struct {
		key   string
		value []byte
	}{
		{mcp.MetaVersion, rawjson.Quote(version)}, {mcp.MetaClientInfo, info}, {mcp.MetaClientCapabilities, capabilities}, {mcp.MetaLogLevel, nil},
	}
	if level != "" {
		add[3].value = rawjson.Quote(level)
	}
	var err error
	for _, m := range add {
		if m.value == nil {
			continue
		}
		if meta, err = rawjson.Set(meta, m.key, m.value); err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "params._meta: %v", err)
		}
	}
	if params, err = rawjson.Set(params, "_meta", meta); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	return params, nil
}

// capabilities returns weir's declared capabilities: for a session's own connection the
// capabilities of its client, else all that clients may have.
func (s *slot) capabilities() json.RawMessage {
	if s.key.session == nil {
		return sharedCapabilities
	}
	if _, caps := s.key.session.Client(); rawjson.IsObject(caps) {
		return caps
	}
	if s.key.session.Version() == "" {
		return sharedCapabilities // of a modern principal, whose clients each state their own
	}
	return json.RawMessage("{}")
}

func declaresRoots(session *mcp.Session) bool {
	_, caps := session.Client()
	return rawjson.IsObject(rawjson.Get(caps, "roots"))
}

// handler serves the messages of the server that belong to no call.
type handler struct{ s *slot }

// Serve implements mcp.Handler.
func (h handler) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	s := h.s
	if r.IsNotification() {
		s.line.Notice(r.Method, r.Params)
		return nil, nil
	}
	if session := s.key.session; session != nil && session.Version() != "" {
		return session.Peer().Call(ctx, r.Method, r.Params, nil)
	}
	switch r.Method {
	case "roots/list":
		s.srv.foundRoots()
		return json.RawMessage(`{"roots":[]}`), nil // a shared connection has no roots
	case "sampling/createMessage", "elicitation/create":
		return nil, mcp.Errorf(mcp.KindNoBackChannel, "%s asked for %s outside any call; sessions share its connection, so nobody can be asked; set per_session: true for it", s.srv.who, r.Method)
	}
	return nil, mcp.MethodNotFound(r.Method)
}

// maxLogged bounds the logged text of one message of a server.
const maxLogged = 500

// operatorLog logs a log message of the server that belongs to no session (spec/calls §3: unowned
// log messages go to the operator).
func operatorLog(log *slog.Logger, redact func(string) string, params json.RawMessage) {
	var severity, logger, message []byte
	if rawjson.Scan(params, rawjson.Key("level", &severity), rawjson.Key("logger", &logger), rawjson.Key("data", &message)) != nil {
		return
	}
	level := slog.LevelInfo
	switch n := mcp.LogSeverity(rawjson.Text(severity)); {
	case n < mcp.LogSeverity("info"):
		level = slog.LevelDebug
	case n >= mcp.LogSeverity("error"):
		level = slog.LevelError
	case n >= mcp.LogSeverity("warning"):
		level = slog.LevelWarn
	}
	if !log.Enabled(context.Background(), level) {
		return
	}
	data := rawjson.Text(message)
	if data == "" {
		data = string(message)
	}
	data = redact(data)
	if len(data) > maxLogged {
		data = data[:maxLogged] + "…"
	}
	log.Log(context.Background(), level, "the server says: "+data, "logger", rawjson.Text(logger))
}
