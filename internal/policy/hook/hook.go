package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of questions and answers.
const (
	// maxQuestion bounds the subject of a question, in bytes: arguments and params, or a result.
	maxQuestion = 1 << 20
	maxAnswer   = 64 << 10
	maxReason   = 200 // characters

	// maxRequests and maxPrograms bound the questions that one hook has at a time. Others wait for as
	// long as an answer may take.
	maxRequests = 64
	maxPrograms = 8
)

// Kind is the subject of a question.
type Kind string

// Kinds of questions.
const (
	Call   Kind = "call"   // before a message reaches a server
	Result Kind = "result" // before an agent gets the answer of a server
)

// Options describe one hook. It has a URL or a Command.
type Options struct {
	// Name is the name of the hook in refusals and records.
	Name             string
	OnCall, OnResult bool

	URL     string
	Headers map[string]string // of each request

	Command []string // a program and its arguments
	Env     []string // all that the program has of an environment
	Dir     string   // where it runs; "" is the directory of this process
	Keeper  *child.Keeper

	// Timeout bounds a question with its wait.
	Timeout time.Duration
	// Open means that the message passes if the hook fails.
	Open bool
}

// Question is a question to hooks.
type Question struct {
	Kind      Kind
	Server    string // the configured name
	ToolID    string // the id of the tool, resource or prompt
	Method    string // of MCP
	Principal string
	Session   string // a tag, which does not open the session
	Trace     string // an id of W3C Trace Context; "" if there is none
	// Arguments are the arguments of the call, or the URI that is read. Params are the other
	// members of the message. A result has neither.
	Arguments, Params json.RawMessage
	Result            json.RawMessage
}

// Refusal says which hook refuses, and why.
type Refusal struct {
	Hook   string
	Reason string // one line of the hook; "" if it gave none
	// Failed means that the hook gave no answer that counts. Reason says why then.
	Failed bool
}

// Set is hooks in order. A nil Set asks nothing. It is safe for concurrent use.
type Set struct {
	hooks  []*one
	redact func([]byte) []byte
	log    *slog.Logger
}

// one is a hook of a Set.
type one struct {
	Options
	by      asker
	slots   chan struct{}
	failing atomic.Bool // so that the log has the first of many failures
}

// asker brings a question to a hook and returns its answer. The error of a hook that failed is for
// operators.
type asker interface {
	ask(ctx context.Context, question []byte) (answer []byte, err error)
	close()
}

// New returns a Set; nil without hooks. redact removes secrets from JSON values, before hooks get them.
// The caller closes it.
func New(hooks []Options, redact func([]byte) []byte, log *slog.Logger) *Set {
	if len(hooks) == 0 {
		return nil
	}
	s := &Set{redact: redact, log: log}
	for _, o := range hooks {
		h := &one{Options: o, slots: make(chan struct{}, maxRequests)}
		if len(o.Command) > 0 {
			h.by, h.slots = &program{o}, make(chan struct{}, maxPrograms)
		} else {
			h.by = newRemote(o)
		}
		s.hooks = append(s.hooks, h)
	}
	return s
}

// Close closes connections that are idle. Questions that are asked already get their answers.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, h := range s.hooks {
		h.by.close()
	}
}

// Asks reports whether any hook is asked about a kind.
func (s *Set) Asks(kind Kind) bool {
	if s == nil {
		return false
	}
	for _, h := range s.hooks {
		if h.on(kind) {
			return true
		}
	}
	return false
}

func (o *Options) on(kind Kind) bool { return kind == Call && o.OnCall || kind == Result && o.OnResult }

// Ask asks the hooks in order, until one refuses. It returns nil if none does. The error is the
// error of ctx, or of memory.Take if there is no room for the question.
func (s *Set) Ask(ctx context.Context, q *Question) (*Refusal, error) {
	if !s.Asks(q.Kind) {
		return nil, nil
	}
	room := int64(copies * q.size())
	if q.size() > maxQuestion {
		room = 0 // it is not written
	}
	if err := memory.Take(ctx, room); err != nil {
		return nil, err
	}
	defer memory.Give(ctx, room)
	question, tooLarge := s.write(q)
	for _, h := range s.hooks {
		if !h.on(q.Kind) {
			continue
		}
		err := tooLarge
		if err == nil {
			var a answer
			a, err = h.ask(ctx, question)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			s.note(ctx, h, err)
			if err == nil && a.deny {
				return &Refusal{Hook: h.Name, Reason: s.clean(a.reason)}, nil
			}
		}
		if err != nil && !h.Open {
			return &Refusal{Hook: h.Name, Reason: told(err, h.Timeout), Failed: true}, nil
		}
	}
	return nil, nil
}

// note logs that a hook has started to fail, or answers again.
func (s *Set) note(ctx context.Context, h *one, err error) {
	if was := h.failing.Swap(err != nil); was == (err != nil) {
		return
	}
	if err == nil {
		s.log.InfoContext(ctx, "a hook answers again", "hook", h.Name)
		return
	}
	s.log.WarnContext(ctx, "a hook gives no answer that counts; its failure decides until it does", "hook", h.Name, "passes", h.Open, "err", err)
}

// clean returns a text of a hook as agents may read it.
func (s *Set) clean(reason string) string {
	if reason == "" {
		return ""
	}
	return rawjson.Text(s.redact(rawjson.Quote(text.Line(reason, maxReason))))
}

// Failures that agents hear of.
var (
	errBusy  = errors.New("too many questions at a time")
	errLarge = fmt.Errorf("more than %d bytes", maxQuestion)
)

// told returns the text of a failure for agents. Details are in the log: they may name servers behind
// the gateway.
func told(err error, limit time.Duration) string {
	switch {
	case errors.Is(err, errLarge):
		return "it looks at no more than " + strconv.Itoa(maxQuestion) + " bytes"
	case errors.Is(err, errBusy):
		return "it has too many questions at a time"
	case errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in " + limit.String()
	}
	return "it gave no answer that counts"
}

// copies is how often a question is in memory while it is written and asked: without secrets, and with the request or
// the pipe that carries it.
const copies = 4

func (q *Question) size() int { return len(q.Arguments) + len(q.Params) + len(q.Result) }

// write returns a question as JSON, without secrets.
func (s *Set) write(q *Question) ([]byte, error) {
	if q.size() > maxQuestion {
		return nil, errLarge
	}
	w := rawjson.NewWriter(make([]byte, 0, q.size()+512)).Object()
	w.Key("kind").String(string(q.Kind))
	for _, m := range [...]struct{ key, value string }{
		{"server", q.Server}, {"tool_id", q.ToolID}, {"method", q.Method}, {"principal", q.Principal}, {"session", q.Session}, {"trace", q.Trace},
	} {
		if m.value != "" {
			w.Key(m.key).String(m.value)
		}
	}
	for _, m := range [...]struct {
		key   string
		value json.RawMessage
	}{{"arguments", q.Arguments}, {"params", q.Params}, {"result", q.Result}} {
		if len(m.value) > 0 {
			w.Key(m.key).Raw(s.redact(m.value))
		}
	}
	return w.EndObject().Bytes(), nil
}

// answer is the decision of a hook.
type answer struct {
	deny   bool
	reason string
}

// ask asks one hook, when it has room for a question.
func (h *one) ask(ctx context.Context, question []byte) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return a, errBusy
	}
	raw, err := h.by.ask(ctx, question)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return a, err
	}
	return read(raw)
}

// read reads an answer. It refuses one that two readers could read differently.
func read(raw []byte) (a answer, err error) {
	if len(raw) > maxAnswer {
		return a, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if err := rawjson.Valid(raw); err != nil {
		return a, fmt.Errorf("an answer that is not JSON: %w", err)
	}
	if !rawjson.IsObject(raw) {
		return a, errors.New("an answer that is no JSON object")
	}
	action, err := rawjson.Sole(raw, "action")
	if err != nil {
		return a, fmt.Errorf("action: %w", err)
	}
	reason, err := rawjson.Sole(raw, "reason")
	if err != nil {
		return a, fmt.Errorf("reason: %w", err)
	}
	a.reason = rawjson.Text(reason)
	switch rawjson.Text(action) {
	case "allow":
		return a, nil
	case "deny":
		a.deny = true
		return a, nil
	}
	return a, errors.New(`an answer whose action is neither "allow" nor "deny"`)
}
