package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Names of events. The event of a meta-tool has its name without "tool_" and its outcome:
// browse.completed, view.failed, resource_read.completed.
const (
	CatalogLoaded    = "catalog.loaded"  // the first complete catalog of a run
	CatalogRefresh   = "catalog.refresh" // entries of an upstream changed
	ExecuteCompleted = "execute.completed"
	ExecuteFailed    = "execute.failed"
	ExecuteDryRun    = "execute.dry_run"
	ExecuteCacheHit  = "execute.cache_hit"
	// Calls through /mcps/NAME/mcp, which use no meta-tool.
	PassthroughCompleted = "passthrough.completed"
	PassthroughFailed    = "passthrough.failed"
	// Definitions of an upstream differ from weir.lock.
	DefinitionsDiffer = "definitions.differ"
)

// Event is one thing that happened. Its JSON omits empty fields; only Time and Name are always
// present.
type Event struct {
	Time time.Time
	Name string // "execute.completed"

	Session   string // SessionTag of the session's id
	Principal string
	Client    string // the name that the client gives itself, "" if it gives none
	MetaTool  string // "tool_execute"
	Run       string // the run of a program that makes the call, or that the call is
	Method    string // of a call that passed no meta-tool: "tools/call"
	ToolID    string
	Upstream  string

	Duration time.Duration
	Steps    Steps  // of Duration
	Attempts int    // how often the upstream was asked, 0 if it was not
	Code     string // of the error, where the gateway answered one
	IsError  bool   // the tool itself answered an error
	DryRun   bool
	Scope    string // of the quota that was breached
	// Decision is what the policy decided, and Rule what decided: "policy.rules[2]". They are ""
	// without a policy, and for calls that no policy is asked about.
	Decision, Rule string
	// Unread means that the response was forwarded byte by byte, so its outcome is unknown.
	Unread bool

	// TokensRead is the size of the response for the agent, TokensRaw its size without the gateway,
	// in cl100k_base tokens. If Counted is false they are not known. If Estimated is true, at least
	// one of them is an estimate from samples of a large text.
	TokensRead, TokensRaw int
	Counted, Estimated    bool

	// Of catalog events.
	Tools, Resources, Prompts int
	Hash                      string // of the catalog
	Findings                  int    // what is wrong with the entries
	Detail                    string // one line

	// Exchange holds the arguments and the result, nil unless the operator has switched that on. It is in
	// no JSON of the event.
	Exchange *Exchange
}

// AppendJSON appends the event as one JSON object without a line end.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"time":"`...)
	dst = e.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","event":`...)
	dst = rawjson.AppendString(dst, e.Name)
	str := func(key, value string) {
		if value != "" {
			dst = append(append(append(dst, ',', '"'), key...), '"', ':')
			dst = rawjson.AppendString(dst, value)
		}
	}
	number := func(key string, n int) {
		dst = append(append(append(dst, ',', '"'), key...), '"', ':')
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	flag := func(key string, set bool) {
		if set {
			dst = append(append(append(dst, ',', '"'), key...), `":true`...)
		}
	}
	str("session", e.Session)
	str("principal", e.Principal)
	str("client", e.Client)
	str("meta_tool", e.MetaTool)
	str("run", e.Run)
	str("method", e.Method)
	str("tool_id", e.ToolID)
	str("upstream", e.Upstream)
	if e.MetaTool != "" || e.Method != "" {
		dst = append(dst, `,"duration_ms":`...)
		dst = strconv.AppendFloat(dst, float64(e.Duration.Microseconds())/1000, 'f', -1, 64)
	}
	if e.Steps.Measured() {
		dst = e.Steps.appendJSON(dst)
	}
	if e.Attempts > 0 {
		number("attempts", e.Attempts)
	}
	str("code", e.Code)
	flag("is_error", e.IsError)
	flag("dry_run", e.DryRun)
	flag("unread", e.Unread)
	str("scope", e.Scope)
	str("decision", e.Decision)
	str("rule", e.Rule)
	if e.Counted {
		number("tokens_read", e.TokensRead)
		number("tokens_raw", e.TokensRaw)
		flag("tokens_estimated", e.Estimated)
	}
	if e.Name == CatalogLoaded || e.Name == CatalogRefresh {
		number("tools", e.Tools)
		number("resources", e.Resources)
		number("prompts", e.Prompts)
		number("findings", e.Findings)
		str("hash", e.Hash)
	}
	str("detail", e.Detail)
	return append(dst, '}')
}

// SessionTag is how a session is named in events and statistics: the first
// twelve hexadecimal digits of its id's SHA-256. The id itself is a secret.
func SessionTag(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// Fan returns a function that passes an event to several functions in order. It ignores nil ones;
// if all are nil it returns nil.
func Fan(sinks ...func(Event)) func(Event) {
	var kept []func(Event)
	for _, s := range sinks {
		if s != nil {
			kept = append(kept, s)
		}
	}
	switch len(kept) {
	case 0:
		return nil
	case 1:
		return kept[0]
	}
	return func(e Event) {
		for _, s := range kept {
			s(e)
		}
	}
}

// EventLog writes events as JSON lines. It is safe for concurrent use: a line
// is written whole.
type EventLog struct {
	mu     sync.Mutex // guards below
	w      io.Writer
	close  io.Closer // nil where the writer is the caller's
	buf    []byte
	failed func(error)
	broken bool // the last write failed and failed was told
}

// NewEventLog returns an EventLog that writes to w. failed is called when
// writing fails, once until it works again; it may be nil.
func NewEventLog(w io.Writer, failed func(error)) *EventLog {
	return &EventLog{w: w, failed: failed}
}

// OpenEventLog returns an EventLog that appends to a file, which is made where
// it is missing, readable by its owner only.
func OpenEventLog(path string, failed func(error)) (*EventLog, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the event log: %w", err)
	}
	return &EventLog{w: f, close: f, failed: failed}, nil
}

// maxKeptLine is the largest buffer that an EventLog keeps between lines.
const maxKeptLine = 16 << 10

// Write writes one event. An event that cannot be written is lost: a full disk
// must not stop the gateway.
func (l *EventLog) Write(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return
	}
	l.buf = append(e.AppendJSON(l.buf[:0]), '\n')
	_, err := l.w.Write(visible.JSON(l.buf))
	if cap(l.buf) > maxKeptLine {
		l.buf = nil
	}
	if err != nil && !l.broken && l.failed != nil {
		l.failed(err)
	}
	l.broken = err != nil
}

// errClosed is returned by a second Close of an EventLog.
var errClosed = errors.New("the event log is closed")

// Close closes the file, if the EventLog opened one. Later events are dropped.
func (l *EventLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return errClosed
	}
	l.w = nil
	if l.close != nil {
		return l.close.Close()
	}
	return nil
}
