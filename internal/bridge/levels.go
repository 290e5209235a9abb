package bridge

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// noLogs is a level above all others: no log messages are wanted.
const noLogs = "none"

// wantedLevel reports whether a log message is at least as severe as level; "" wants all. params
// are the params of notifications/message.
func wantedLevel(level string, params json.RawMessage) bool {
	switch level {
	case "":
		return true
	case noLogs:
		return false
	}
	n := mcp.LogSeverity(rawjson.Text(rawjson.Get(params, "level")))
	return n < 0 || n >= mcp.LogSeverity(level)
}

// Leveler sets which log messages the session mcp.Caller(ctx) wants. A server that sessions share
// logs at the most verbose level of all of them.
type Leveler interface {
	SetLogLevel(ctx context.Context, level string) error
}

// Levels decides which log messages of one server each agent gets. The zero value is ready to use,
// and all methods are safe for concurrent use.
type Levels struct {
	// set says that an agent has set the server's level, so that the server does not use its
	// default any more.
	set atomic.Bool
}

// Set sends the server the level of a legacy session and stores it.
func (l *Levels) Set(ctx context.Context, server Leveler, level string) error {
	if err := server.SetLogLevel(ctx, level); err != nil {
		return err
	}
	l.set.Store(true)
	return nil
}

// Of returns the level for a legacy session. A session without a level of its own gets the server's
// default messages. Once another session has set the level, the default is unknown, and Of returns
// "info".
func (l *Levels) Of(s *mcp.Session) string {
	level := s.LogLevel()
	if level == "" && l.set.Load() {
		return "info"
	}
	return level
}

// markKey is the key of the most verbose level that calls of a modern principal have requested from
// one server.
type markKey struct{ of *Levels }

// levelMark stores the most verbose level so far.
type levelMark struct {
	mu    sync.Mutex // guards level
	level string
}

// lower reports whether level is more verbose than all before.
func (m *levelMark) lower(level string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.level != "" && mcp.LogSeverity(level) >= mcp.LogSeverity(m.level) {
		return false
	}
	m.level = level
	return true
}

// OfCall returns the level for a request: its session's level in the legacy era, the level in its
// _meta in the modern one, where the default is no messages. The server gets a modern request's
// level if it is more verbose than the earlier ones; told, which may be nil, gets the error of
// that. OfCall's own error is of mcp.KindInvalidParams: the level is unknown.
func (l *Levels) OfCall(ctx context.Context, r *mcp.Request, server Leveler, told func(error)) (string, error) {
	if !r.Modern() {
		return l.Of(r.Session), nil
	}
	meta, err := r.Fields().Meta()
	switch {
	case err != nil:
		return "", err
	case meta.LogLevel == "":
		return noLogs, nil
	case mcp.LogSeverity(meta.LogLevel) < 0:
		return "", mcp.Errorf(mcp.KindInvalidParams, "params._meta[%q]: %q is no log level", mcp.MetaLogLevel, clip(meta.LogLevel))
	}
	asked, _ := r.Session.Value(markKey{l}, func() any { return new(levelMark) }).(*levelMark)
	if asked == nil || server == nil || !asked.lower(meta.LogLevel) {
		return meta.LogLevel, nil
	}
	l.set.Store(true)
	if err := server.SetLogLevel(ctx, meta.LogLevel); err != nil && told != nil {
		told(err)
	}
	return meta.LogLevel, nil
}
