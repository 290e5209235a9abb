package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/observe"
)

// Messages of weir serve that a person sees at the level info.
const (
	logStopping = "shutting down"
	logUnused   = "no client is left"
)

// newLog returns the log of a gateway. It is for people if the format is auto and stderr is a
// terminal: then lines is where it goes, otherwise lines is nil. format replaces log.format unless
// it is empty.
func newLog(stderr terminal, c *config.Config, format string) (log *observe.Log, lines *screenLines) {
	if !forPeople(stderr, c, format) {
		if format != "" {
			other := *c
			other.Log.Format = format
			c = &other
		}
		return observe.NewLog(stderr.Writer, c), nil
	}
	lines = &screenLines{out: stderr}
	return observe.NewLogOf(c, func(level slog.Leveler) slog.Handler {
		return &screenLog{lines: lines, level: level}
	}), lines
}

// newEventLog is newLog for a program whose records of the level info are all of use to a person, such
// as a Computer that joins. At a terminal each line has its time.
func newEventLog(stderr terminal, c *config.Config) *observe.Log {
	log, lines := newLog(stderr, c, "")
	if lines != nil {
		lines.timed.Store(true)
		lines.all.Store(true)
	}
	return log
}

// forPeople reports whether the log of a gateway is for people. See newLog.
func forPeople(stderr terminal, c *config.Config, format string) bool {
	return cmp.Or(format, c.Log.Format) == config.LogAuto && stderr.screen()
}

// screenLines are lines for a person, each with a mark before it. They are safe for concurrent use.
type screenLines struct {
	out     terminal
	timed   atomic.Bool            // put the time before each line
	all     atomic.Bool            // show every record of the level info
	changed atomic.Pointer[func()] // called for each record of the log; nil tells of no state
}

// print prints a line with a mark, such as ✓. It wraps a longer text below its beginning and never
// cuts it. It does not break lead, which may be empty.
func (l *screenLines) print(at time.Time, style, mark, lead, text string) {
	var b strings.Builder
	indent := 0
	put := func(style, part string) {
		b.WriteString(l.out.paint(style, part))
		indent += utf8.RuneCountInString(part)
	}
	if l.timed.Load() {
		put(dim, at.Format(time.TimeOnly)+" ")
	}
	put(style, mark)
	put("", " ")
	if lead != "" {
		put(bold, lead)
		put("", "  ")
	}
	separator := ""
	if indent > l.out.width/2 { // a narrow screen: the text gets lines of its own
		indent = noteIndent
		separator = "\n" + strings.Repeat(" ", indent)
	}
	for _, line := range wrap(l.out.clean(text), l.out.width-indent) {
		b.WriteString(separator + line)
		separator = "\n" + strings.Repeat(" ", indent)
	}
	b.WriteByte('\n')
	_, _ = l.out.Write([]byte(b.String())) // a closed terminal shows nothing
}

// A screenLog is a slog.Handler for a person: what went wrong and what is news, without the other
// records of the level info. The level debug shows every record.
type screenLog struct {
	lines *screenLines
	level slog.Leveler
	attrs []slog.Attr
	group string // prefix of keys
}

// Enabled implements slog.Handler. Records of the level info are always of use: they tell that a
// server has changed.
func (h *screenLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= min(h.level.Level(), slog.LevelInfo)
}

// WithAttrs implements slog.Handler.
func (h *screenLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		next.attrs = append(next.attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *screenLog) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

// Handle implements slog.Handler.
func (h *screenLog) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clip(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
		return true
	})
	changed := h.lines.changed.Load()
	if changed != nil {
		(*changed)()
	}
	level := h.level.Level()
	switch {
	case r.Level < level:
		return nil
	case level <= slog.LevelDebug, r.Level > slog.LevelInfo, h.lines.all.Load():
	case r.Message != gateway.LogApplied && r.Message != logStopping && r.Message != logUnused:
		return nil
	}
	var server, cause string
	var rest []string
	state := false
	for _, a := range attrs {
		value := attrText(a.Value)
		switch {
		case value == "":
		case a.Key == "upstream":
			server = value
		case a.Key == "err", a.Key == "problem", a.Key == "at":
			cause = ": " + value
		case a.Key == "state":
			state = true
		default:
			rest = append(rest, a.Key+": "+value)
		}
	}
	if state && changed != nil && level > slog.LevelDebug {
		return nil // the line of the server's state says it
	}
	text := r.Message + cause
	if len(rest) > 0 {
		text += " (" + strings.Join(rest, "; ") + ")"
	}
	style, mark := dim, "·"
	switch {
	case r.Level >= slog.LevelError:
		style, mark = red, "✗"
	case r.Level >= slog.LevelWarn:
		style, mark = yellow, "!"
	}
	h.lines.print(r.Time, style, mark, oneLine(h.lines.out.clean(server)), text)
	return nil
}

// attrText returns the value of an attribute for people. It is empty for an empty list.
func attrText(v slog.Value) string {
	v = v.Resolve()
	if names, ok := v.Any().([]string); ok {
		return strings.Join(names, ", ")
	}
	if v.Kind() == slog.KindAny {
		return fmt.Sprint(v.Any())
	}
	return v.String()
}
