package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// maxViewChars is how many characters a view shows at most unless the gateway
// is configured otherwise.
const maxViewChars = 20000

// noticeChars is kept free for saying what was cut.
const noticeChars = 700

// View is what a selector shows of an artifact.
type View struct {
	// Text is what was selected.
	Text string
	// Notice says which part of the whole Text is and how to get the rest;
	// empty where Text is everything there is.
	Notice string
	// Next is the selector that goes on where this view ends, nil at the end.
	Next json.RawMessage
	// Matched is the number of rows or groups that a selector of type table matches, before its
	// offset and limit; 0 for other types.
	Matched int
}

// selectorTypes are the types of selectors in the order in which they are
// listed to a caller.
var selectorTypes = []struct {
	name   string
	params []string
	run    func(v *viewing) (View, error)
}{
	{"head", []string{"chars", "start"}, (*viewing).head},
	{"lines", []string{"start", "end", "numbers"}, (*viewing).lines},
	{"tail", []string{"lines", "numbers"}, (*viewing).tail},
	{"headings", []string{"level"}, (*viewing).headings},
	{"section", []string{"heading", "numbers"}, (*viewing).section},
	{"json_keys", []string{"keys"}, (*viewing).jsonKeys},
	{"rows", []string{"start", "end", "path"}, (*viewing).rows},
	{"json_path", []string{"path", "start"}, (*viewing).jsonPath},
	{"search", []string{"pattern", "context", "limit", "start"}, (*viewing).search},
	{"table", tableParams, (*viewing).table},
}

// Bounds of what one view computes.
const (
	maxViewWork = 500_000_000
	maxViewTime = 20 * time.Second
	// A view holds at most so many times the bytes of the result, and so many more.
	maxViewFactor = 4
	maxViewBytes  = 64 << 20
)

// ViewOptions bound a view. The zero value uses the defaults.
type ViewOptions struct {
	// MaxChars is how many characters are shown at most, the notice included; 0 is
	// maxViewChars.
	MaxChars int
	// MaxWork is how many units of work it may compute; 0 is 500 million, which is
	// 25 MB with a pattern of 20 instructions.
	MaxWork int64
	// Turns, if set, is where views that compute much wait for each other.
	Turns *work.Turns
	// Room, if set, is asked before a view holds more than 64 KB, with the bytes that it will hold in
	// all, such as the keys of rows that are sorted. The caller frees them when what the view returns
	// is no longer used.
	Room func(bytes int64) error
	// CSV shows rows of a table as comma-separated values where these are shorter and say the same. The
	// notice then starts with the word.
	CSV bool
	// Screen removes hidden text from what is shown. Views decode what the Screen of the answer has
	// seen as it was written: JSON in a text, and base64.
	Screen Screen
}

// Select applies a selector to an artifact's bytes (spec/gateway §4.2; the selectors of tool_view).
// Every failure is an *Error of code ViewFailed whose message names the parameter, one of
// RateLimited that has the error of Room as its cause, or ctx's error.
func Select(ctx context.Context, l *artifact.Lease, selector json.RawMessage, opts ViewOptions) (View, error) {
	data, err := l.Bytes(ctx)
	if err != nil {
		if full := (*memory.Error)(nil); errors.As(err, &full) && full.Most == 0 {
			err = &Error{Code: RateLimited, Message: "the view was not made: " + err.Error(), Cause: mcp.NoRoom("the view", err)}
		} else if full != nil {
			err = viewFailed("%v", err)
		}
		return View{}, err
	}
	view, err := selectFrom(ctx, l.Artifact, data, l.Table, selector, opts)
	return opts.Screen.view(view), opts.Screen.viewError(err)
}

// selectFrom is Select with a reader that gives the bytes as a table.
func selectFrom(ctx context.Context, a artifact.Artifact, data []byte, read func(tables.DetectOptions) (*tables.Table, error), selector json.RawMessage, opts ViewOptions) (View, error) {
	var view View
	err := Bounded(ctx, int64(len(data)), opts, func(m *work.Meter) (err error) {
		view, err = viewFrom(m, ctx, a, data, read, selector, opts)
		return err
	})
	return view, err
}

// Bounded runs view, which reads size bytes, with the bounds of opts on its work, its time and its
// memory. Its own errors are *Error; one for memory has the error of Room as its cause.
func Bounded(ctx context.Context, size int64, opts ViewOptions, view func(*work.Meter) error) error {
	if opts.MaxWork <= 0 {
		opts.MaxWork = maxViewWork
	}
	var full error
	m := work.NewMeter(ctx, work.Options{Turns: opts.Turns, Limit: opts.MaxWork, Timeout: maxViewTime, Room: func(bytes int64) error {
		if most := maxViewFactor*size + maxViewBytes; bytes > most {
			full = viewFailed("the view would hold more than %d MB of memory, and the result has %d MB; narrow it", most>>20, size>>20)
		} else if opts.Room != nil {
			if err := opts.Room(bytes); err != nil {
				full = &Error{Code: RateLimited, Message: "the view was not made: " + err.Error(), Cause: err}
			}
		}
		return full
	}})
	defer m.Close()
	err := view(m)
	switch {
	case full != nil:
		return full
	case errors.Is(err, work.ErrLimit):
		return viewFailed("the view asks for too much; narrow it")
	case errors.Is(err, work.ErrTime):
		return viewFailed("the view took longer than %s; narrow it, or try again later", maxViewTime)
	}
	return err
}

// newViewing reads the members of a selector.
func newViewing(m *work.Meter, ctx context.Context, a artifact.Artifact, data []byte, read func(tables.DetectOptions) (*tables.Table, error), selector json.RawMessage, maxChars int) (*viewing, error) {
	if maxChars <= 0 {
		maxChars = maxViewChars
	}
	maxChars = max(maxChars, 2*noticeChars)
	if !rawjson.IsObject(selector) {
		return nil, viewFailed("selector must be an object such as {\"type\":\"head\",\"chars\":500}, not %s", text.Value(selector))
	}
	v := &viewing{ctx: ctx, meter: m, scratch: scratch{meter: m}, artifact: a, data: data, read: read, selector: selector, params: map[string]json.RawMessage{}, max: maxChars}
	var duplicates []string
	err := rawjson.EachMember(selector, func(m rawjson.Member) bool {
		key := string(m.Key)
		if _, twice := v.params[key]; twice {
			duplicates = append(duplicates, key)
			return false
		}
		v.params[key] = m.Value
		return true
	})
	if err != nil {
		return nil, viewFailed("selector: %v", err)
	}
	if len(duplicates) > 0 {
		return nil, viewFailed("selector has %q twice", duplicates[0])
	}
	return v, nil
}

func viewFrom(m *work.Meter, ctx context.Context, a artifact.Artifact, data []byte, read func(tables.DetectOptions) (*tables.Table, error), selector json.RawMessage, opts ViewOptions) (View, error) {
	v, err := newViewing(m, ctx, a, data, read, selector, opts.MaxChars)
	if err != nil {
		return View{}, err
	}
	v.csv = opts.CSV
	kind := "head"
	if raw, ok := v.params["type"]; ok {
		if kind, err = rawjson.String(raw); err != nil {
			return View{}, viewFailed("type must be a string, one of %s, not %s", selectorNames(), text.Value(raw))
		}
	}
	for _, s := range selectorTypes {
		if s.name != kind {
			continue
		}
		if err := v.checkParams(s.name, s.params); err != nil {
			return View{}, err
		}
		if isBinary(a.MediaType, data) && !(s.name == "table" && columnar.Is(data)) {
			return View{}, viewFailed("type %q shows text; %s is %s, %d bytes of binary data", kind, a.Handle, text.Line(a.MediaType, 80), len(data))
		}
		// Whatever is shown of it, it is read.
		if err := m.Spend(int64(len(data)) / 8); err != nil {
			return View{}, err
		}
		return s.run(v)
	}
	return View{}, viewFailed("type %q is unknown; selectors are %s", text.Fit(kind, 60), selectorNames())
}

func selectorNames() string {
	names := make([]string, len(selectorTypes))
	for i, s := range selectorTypes {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

func viewFailed(format string, args ...any) *Error {
	return NewError(ViewFailed, fmt.Sprintf(format, args...))
}

// isBinary reports whether no text selector makes sense on data.
func isBinary(mediaType string, data []byte) bool {
	if bytes.IndexByte(data[:min(len(data), 8192)], 0) >= 0 {
		return true
	}
	return !strings.HasPrefix(mediaType, "text/") && !utf8.Valid(data)
}

// viewing is one Select.
type viewing struct {
	ctx      context.Context
	meter    *work.Meter
	artifact artifact.Artifact
	data     []byte
	read     func(tables.DetectOptions) (*tables.Table, error)
	selector json.RawMessage
	params   map[string]json.RawMessage
	max      int
	csv      bool // see ViewOptions
	scratch  scratch
}

func (v *viewing) checkParams(kind string, known []string) error {
next:
	for key := range v.params {
		if key == "type" {
			continue
		}
		for _, k := range known {
			if k == key {
				continue next
			}
		}
		return viewFailed("%q is no parameter of %s, whose parameters are %s", text.Fit(key, 60), kind, strings.Join(known, ", "))
	}
	return nil
}

// integer reads a parameter that must be a whole number ≥ 0.
func (v *viewing) integer(name string, otherwise int) (int, error) {
	n, given, err := v.signed(name)
	switch {
	case err != nil:
		return 0, err
	case !given:
		return otherwise, nil
	case n < 0:
		return 0, viewFailed("%s must be 0 or more, not %d", name, n)
	}
	return n, nil
}

// signed reads a parameter that must be a whole number.
func (v *viewing) signed(name string) (n int, given bool, err error) {
	raw, ok := v.params[name]
	if !ok || string(raw) == "null" {
		return 0, false, nil
	}
	if n, ok = rawjson.Int(raw); !ok {
		return 0, false, viewFailed("%s must be a whole number, not %s", name, text.Value(raw))
	}
	return n, true, nil
}

// flag reads a parameter that must be true or false.
func (v *viewing) flag(name string) (bool, error) {
	switch raw := v.params[name]; string(raw) {
	case "", "null", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, viewFailed("%s must be true or false, not %s", name, text.Value(raw))
	}
}

func (v *viewing) str(name string) (string, bool, error) {
	raw, ok := v.params[name]
	if !ok || string(raw) == "null" {
		return "", false, nil
	}
	s, err := rawjson.String(raw)
	if err != nil {
		return "", false, viewFailed("%s must be a string, not %s", name, text.Value(raw))
	}
	return s, true, nil
}

// span is a range of lines or rows as a caller gives it: below 0 counts from the end.
type span struct {
	start, end int
	open       bool // no end is given
}

// span reads start and end.
func (v *viewing) span() (s span, err error) {
	if s.start, _, err = v.signed("start"); err != nil {
		return s, err
	}
	var closed bool
	if s.end, closed, err = v.signed("end"); err != nil {
		return s, err
	}
	s.open = !closed
	if closed && s.end < s.start && (s.end < 0) == (s.start < 0) {
		return s, viewFailed("end must not be less than start, but is %d and start is %d", s.end, s.start)
	}
	return s, nil
}

// within returns the range in a total.
func (s span) within(total int) (start, end int) {
	from := func(n int) int {
		if n < 0 {
			return max(0, total+n)
		}
		return min(n, total)
	}
	start, end = from(s.start), total
	if !s.open {
		end = max(from(s.end), start)
	}
	return start, end
}

// text is the artifact as text: bytes that are no UTF-8 become U+FFFD. The text is no copy of the
// bytes if it need not be, and is invalid when they are. It is empty if the meter has no room for it.
func (v *viewing) text() string {
	if utf8.Valid(v.data) {
		return stringOf(v.data)
	}
	if v.meter.Take(3*int64(len(v.data))) != nil {
		return ""
	}
	return strings.ToValidUTF8(stringOf(v.data), "\uFFFD")
}

// finish puts a view together. content may be a part of the artifact. The notice has at most
// noticeChars characters.
func (v *viewing) finish(content, notice string, next []byte) View {
	content = strings.Clone(content)
	if next != nil {
		more := "; go on with " + string(next)
		if len(more) > noticeChars/2 { // a long path or pattern: the caller has it
			more = "; go on with the same selector, \"start\":" + string(rawjson.Get(next, "start"))
		}
		notice = text.Fit(notice, max(noticeChars-2-utf8.RuneCountInString(more), 40)) + more
	}
	if notice != "" {
		notice = "[" + text.Fit(notice, noticeChars-2) + "]"
	}
	return View{Text: content, Notice: notice, Next: next}
}
