package main

import (
	"io"
	"log/slog"

	"github.com/weir-mcp/weir/config"
)

// A logging is weir's log and the level that a reload may change.
type logging struct {
	*slog.Logger
	level  slog.LevelVar
	format string
}

// newLogger writes a log to w in the form that the configuration asks for.
func newLogger(w io.Writer, c config.Log) *logging {
	l := &logging{format: c.Format}
	l.set(c)
	opts := &slog.HandlerOptions{Level: &l.level}
	if c.Format == "json" {
		l.Logger = slog.New(slog.NewJSONHandler(w, opts))
		return l
	}
	opts.ReplaceAttr = func(groups []string, attr slog.Attr) slog.Attr {
		if len(groups) == 0 && attr.Key == slog.TimeKey {
			return slog.String(slog.TimeKey, attr.Value.Time().Format("15:04:05.000"))
		}
		return attr
	}
	l.Logger = slog.New(slog.NewTextHandler(w, opts))
	return l
}

// set changes the level. The configuration holds no other than slog's names.
func (l *logging) set(c config.Log) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err == nil {
		l.level.Set(level)
	}
}
