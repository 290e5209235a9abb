package cli

import (
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/telemetry"
	"github.com/weir-mcp/weir/internal/visible"
)

// A logging is weir's log, and its level and the secrets it hides, which a
// reload may change.
type logging struct {
	*slog.Logger
	level  slog.LevelVar
	format string
	redact atomic.Pointer[result.Redactor] // nil hides nothing
}

// newLogger writes a log to w in the form that the configuration asks for,
// without secrets where it does not ask for them.
func newLogger(w io.Writer, c *config.Config) *logging {
	l := &logging{format: c.Log.Format}
	l.set(c.Log)
	l.hide(c)
	opts := &slog.HandlerOptions{Level: &l.level}
	if c.Log.Format == "json" {
		l.Logger = slog.New(telemetry.RedactLog(slog.NewJSONHandler(w, opts), l.clean))
		return l
	}
	opts.ReplaceAttr = func(groups []string, attr slog.Attr) slog.Attr {
		if len(groups) == 0 && attr.Key == slog.TimeKey {
			return slog.String(slog.TimeKey, attr.Value.Time().Format("15:04:05.000"))
		}
		return attr
	}
	l.Logger = slog.New(telemetry.RedactLog(slog.NewTextHandler(w, opts), l.clean))
	return l
}

// hide takes over the secrets of a configuration.
func (l *logging) hide(c *config.Config) {
	if c.Log.Unredacted {
		l.redact.Store(nil)
		return
	}
	l.redact.Store(result.NewRedactor(c.Secrets()))
}

// clean removes secrets from a text, and what is not seen.
func (l *logging) clean(text string) string {
	text = visible.Text(text) // first, so that a secret is found with such characters in it, too
	if r := l.redact.Load(); r != nil {
		text = r.Redact(text)
	}
	return text
}

// set changes the level. The configuration holds no other than slog's names.
func (l *logging) set(c config.Log) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err == nil {
		l.level.Set(level)
	}
}
