package mcptask

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// extension is the extension of 2026-07-28 for tasks.
const extension = "io.modelcontextprotocol/tasks"

// Methods about a task.
const (
	MethodGet    = "tasks/get"
	MethodResult = "tasks/result" // 2025-11-25
	MethodUpdate = "tasks/update" // 2026-07-28
	MethodCancel = "tasks/cancel"
)

// MaxID bounds the id of a task.
const MaxID = 256

// Offer says that the maker of a call understands tasks. A server may then answer with one.
type Offer struct {
	// Tool is the taskSupport of the called tool: "required", "optional", or "" for none. Only
	// 2025-11-25 has it, and there only such a tool runs as a task.
	Tool string
	// TTL is how long a server of 2025-11-25 is asked to keep the task.
	TTL time.Duration
	// Agent says that requests are about a task as agent servers make them: see ReadAgent.
	Agent bool
}

type offerKey struct{}

// WithOffer returns a context for requests whose maker understands tasks.
func WithOffer(ctx context.Context, o Offer) context.Context {
	return context.WithValue(ctx, offerKey{}, o)
}

// OfferOf returns the Offer of a context.
func OfferOf(ctx context.Context) (o Offer, ok bool) {
	o, ok = ctx.Value(offerKey{}).(Offer)
	return o, ok
}

// Augment returns the params of a tools/call that asks a server of 2025-11-25 for a task. The
// capabilities are the server's. If the tool does not run as a task there, params stay as they are.
func (o Offer) Augment(params, capabilities json.RawMessage) (json.RawMessage, error) {
	switch {
	case o.Tool == "required":
	case o.Tool == "optional" && rawjson.IsObject(rawjson.GetPath(capabilities, "tasks", "requests", "tools", "call")):
	default:
		return params, nil
	}
	task := []byte("{}")
	if o.TTL > 0 {
		task = append(strconv.AppendInt([]byte(`{"ttl":`), o.TTL.Milliseconds(), 10), '}')
	}
	return rawjson.Set(params, "task", task)
}

// Declares reports whether capabilities hold the extension of 2026-07-28.
func Declares(capabilities json.RawMessage) bool {
	return rawjson.MayHold(capabilities, extension) && rawjson.IsObject(rawjson.GetPath(capabilities, "extensions", extension))
}

// Declare returns capabilities with the extension of 2026-07-28.
func Declare(capabilities json.RawMessage) (json.RawMessage, error) {
	if Declares(capabilities) {
		return capabilities, nil
	}
	extensions := rawjson.Get(capabilities, "extensions")
	if !rawjson.IsObject(extensions) {
		extensions = []byte("{}")
	}
	extensions, err := rawjson.Set(extensions, extension, []byte("{}"))
	if err != nil {
		return nil, err
	}
	return rawjson.Set(capabilities, "extensions", extensions)
}

// Params returns the params of a request about one task.
func Params(id string) json.RawMessage {
	return append(rawjson.AppendString([]byte(`{"taskId":`), id), '}')
}

// State is the state of a task by its server.
type State struct {
	ID      string
	Status  string // working, input_required, completed, failed or cancelled
	Message string
	Poll    time.Duration // wished between two requests; 0 if the server has no wish
	// Of 2026-07-28: the result or the error that the task ended with, and the open questions.
	Result, Error, Questions json.RawMessage
	// Modern reports a task of 2026-07-28.
	Modern bool
	// Agent reports a task as agent servers make them. Modern is then set as well.
	Agent bool
}

// Final reports whether the task has ended.
func (s *State) Final() bool {
	return s.Status == "completed" || s.Status == "failed" || s.Status == "cancelled"
}

// Made returns the task that a tools/call was answered with. ok is false for any other result.
func Made(result json.RawMessage) (s State, ok bool) {
	var task, kind []byte
	if rawjson.Scan(result, rawjson.Key("task", &task), rawjson.Key("resultType", &kind)) != nil {
		return s, false
	}
	switch {
	case rawjson.IsObject(task):
		s, _ = Read(task)
	case rawjson.Text(kind) == "task":
		s, _ = Read(result)
		s.Modern = true
	}
	return s, s.ID != "" && len(s.ID) <= MaxID
}

// Read reads a task as tasks/get answers it. ok is false if raw is no task.
func Read(raw json.RawMessage) (s State, ok bool) {
	var id, status, message, poll, pollMs []byte
	err := rawjson.Scan(raw,
		rawjson.Key("taskId", &id), rawjson.Key("status", &status), rawjson.Key("statusMessage", &message),
		rawjson.Key("pollInterval", &poll), rawjson.Key("pollIntervalMs", &pollMs),
		rawjson.Key("result", (*[]byte)(&s.Result)), rawjson.Key("error", (*[]byte)(&s.Error)), rawjson.Key("inputRequests", (*[]byte)(&s.Questions)))
	if err != nil {
		return s, false
	}
	s.ID, s.Status, s.Message = rawjson.Text(id), rawjson.Text(status), rawjson.Text(message)
	if pollMs != nil {
		poll = pollMs
	}
	if ms, err := strconv.ParseFloat(string(poll), 64); err == nil && ms > 0 {
		s.Poll = time.Duration(math.Min(ms, float64(time.Hour/time.Millisecond)) * float64(time.Millisecond))
	}
	return s, s.Status != ""
}
