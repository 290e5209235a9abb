package observe

import (
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// maxTokens is how many tokens of sign-ins are removed from texts: those that were used last.
const maxTokens = 1000

// A Log is weir's log. A reload may change its level and the secrets that it removes.
type Log struct {
	*slog.Logger
	Level  slog.LevelVar                   // effective only if NewLog or NewLogOf made the Log
	redact atomic.Pointer[result.Redactor] // nil removes nothing
	tokens *redact.Recent
}

// NewLog returns a Log that writes lines to w: as JSON if the configuration says so, otherwise as
// key=value. It removes secrets unless the configuration disables that.
func NewLog(w io.Writer, c *config.Config) *Log {
	return NewLogOf(c, func(level slog.Leveler) slog.Handler {
		opts := &slog.HandlerOptions{Level: level}
		if c.Log.Format == config.LogJSON {
			return slog.NewJSONHandler(w, opts)
		}
		opts.ReplaceAttr = func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.String(slog.TimeKey, attr.Value.Time().Format("15:04:05.000"))
			}
			return attr
		}
		return slog.NewTextHandler(w, opts)
	})
}

// NewLogOf returns a Log that passes its records to a handler of the caller, which obeys level. It
// removes secrets unless the configuration disables that.
func NewLogOf(c *config.Config, handler func(level slog.Leveler) slog.Handler) *Log {
	l := &Log{}
	l.SetLevel(c.Log)
	return l.over(handler(&l.Level), c)
}

// WrapLog returns a Log that passes its records to a handler, which decides on levels. It removes
// secrets unless the configuration disables that.
func WrapLog(h slog.Handler, c *config.Config) *Log { return (&Log{}).over(h, c) }

func (l *Log) over(h slog.Handler, c *config.Config) *Log {
	l.tokens = redact.NewRecent(maxTokens)
	l.hide(c)
	l.Logger = slog.New(telemetry.RedactLog(h, l.Clean))
	return l
}

// Apply follows a configuration that was read again.
func (l *Log) Apply(c *config.Config) {
	l.SetLevel(c.Log)
	l.hide(c)
}

// hide replaces the secrets with the secrets of a configuration.
func (l *Log) hide(c *config.Config) {
	if c.Log.Unredacted {
		l.redact.Store(nil)
		return
	}
	l.redact.Store(result.NewRedactor(c.Secrets()).With(l.tokens))
}

// Tokens returns the tokens that the log removes in addition to the secrets of the configuration. An
// Engine adds to them; see [Options].
func (l *Log) Tokens() *redact.Recent { return l.tokens }

// Clean removes secrets and invisible characters from a text.
func (l *Log) Clean(text string) string {
	text = visible.Text(text) // first, because invisible characters could split a secret
	if r := l.redact.Load(); r != nil {
		text = r.Redact(text)
	}
	return text
}

// SetLevel changes the level. The configuration allows only slog's names.
func (l *Log) SetLevel(c config.Log) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err == nil {
		l.Level.Set(level)
	}
}
