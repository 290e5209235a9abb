package bridge

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// noLogs is a level above all others: no log message is wanted.
const noLogs = "none"

// wantedLevel reports whether a log message is for somebody who wants this level and
// those more severe; "" wants all. params are those of notifications/message.
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

// Leveler is told which log messages the session wants that mcp.Caller(ctx)
// names. A server that sessions share logs what the most verbose of them wants.
type Leveler interface {
	SetLogLevel(ctx context.Context, level string) error
}

// Levels knows which log messages of one server are for whom. The zero value is
// ready, and all methods are safe for concurrent use.
type Levels struct {
	// set says that somebody has set the server's level, so that it is not the
	// server's own any more.
	set atomic.Bool
}

// Set tells the server the level of a legacy session and notes that.
func (l *Levels) Set(ctx context.Context, server Leveler, level string) error {
	if err := server.SetLogLevel(ctx, level); err != nil {
		return err
	}
	l.set.Store(true)
	return nil
}

// Of is what a legacy session gets. One that has no wish gets what the server
// sends by itself; once others have set its level, nobody knows what that would
// be, and it is "info".
func (l *Levels) Of(s *mcp.Session) string {
	level := s.LogLevel()
	if level == "" && l.set.Load() {
		return "info"
	}
	return level
}

// markKey is the key of the most verbose level that the calls of a modern
// principal have wanted of one server.
type markKey struct{ of *Levels }

// levelMark remembers the most verbose level there was.
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

// OfCall is what a request gets: in the legacy era its session's level, in the
// modern one what its _meta asks for, and nothing without that. The server is
// told of a modern request's level where it is more verbose than those before;
// told, which may be nil, is called with the error. The returned error is of
// mcp.KindInvalidParams: the level is none.
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
