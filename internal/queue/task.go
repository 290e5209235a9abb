package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// State is where a task stands.
type State string

// The states. The last three are final.
const (
	Pending   State = "pending"
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Final reports whether nothing follows on s.
func (s State) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Reason says why a task is failed or cancelled.
type Reason string

// The reasons.
const (
	ReasonError       Reason = "error"       // Run returned an error
	ReasonTimeout     Reason = "timeout"     // it took longer than it may
	ReasonInterrupted Reason = "interrupted" // the process ended while it ran
	ReasonUnsaved     Reason = "unsaved"     // it ran, and its end could not be saved
	ReasonCancelled   Reason = "cancelled"   // its owner no longer wants it
)

// Errors of a Queue. They are compared with errors.Is.
var (
	ErrNotFound    = errors.New("no such task")
	ErrClosed      = errors.New("the task queue is closed")
	ErrCancelled   = errors.New("the task was cancelled")
	ErrInterrupted = errors.New("interrupted: the process ended while the task ran")
	// ErrStore says that the store did not answer, or has no room.
	ErrStore   = errors.New("the store of the tasks failed")
	errFull    = errors.New("the task queue is full")
	errTimeout = errors.New("the task took longer than it may")
)

// FullError is errFull with the numbers.
type FullError struct{ Status Status }

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("the task queue is full: %d tasks wait, which is the limit, and %d run", e.Status.Queued, e.Status.Running)
}

// Is reports whether target is errFull.
func (e *FullError) Is(target error) bool { return target == errFull }

// TimeoutError is errTimeout with the limit.
type TimeoutError struct{ Limit time.Duration }

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timed out after %v", e.Limit)
}

// Is reports whether target is errTimeout.
func (e *TimeoutError) Is(target error) bool { return target == errTimeout }

// Spec is a task to be.
type Spec struct {
	// Owner is who may read and cancel the task.
	Owner string
	// Name is the kind of the task, for people and metrics.
	Name string
	// Payload is the input of Run. It must not change afterwards.
	Payload json.RawMessage
	// Priority goes before order: a task with a higher one is taken first, but
	// every eighth task taken is the one that has waited longest, so that none
	// waits for ever. From -maxPriority to maxPriority; a value beyond counts as
	// the bound.
	Priority int
	// Timeout bounds the execution, from its start. PlaceOptions.Timeout where zero,
	// none where negative.
	Timeout time.Duration
	// Retain is how long the task can be read after its end, at most (and where
	// zero) Options.RetainAge.
	Retain time.Duration
	// Idempotent says that an interrupted execution may be repeated: such a task waits again after
	// its process has ended, until it has been started maxStarts times.
	Idempotent bool
	// Value is handed to the Run of a call of Do as it is.
	Value any
}

// maxPriority is the highest priority; the lowest is -maxPriority.
const maxPriority = 8

// Task is the state of a submitted task at one moment.
type Task struct {
	ID, Owner, Name string
	State           State
	Created         time.Time
	Updated         time.Time // of the state, and of the log
	Started, Ended  time.Time // zero before
	Retain          time.Duration
	// Result is the result of Run; a failed task may also have one.
	Result json.RawMessage
	// Error says in words why the task is failed or cancelled, Reason as a word.
	Error  string
	Reason Reason
	// LogTail is the end of the log that Run wrote, and LogSeq the number of writes so far. LogTruncated
	// reports that LogTail is not the whole log.
	LogTail      string
	LogSeq       int64
	LogTruncated bool
}

// record is a task as a store keeps it. A task that has ended has no payload.
type record struct {
	ID       string          `json:"id"`
	Seq      int64           `json:"seq"` // order of arrival
	Owner    string          `json:"owner"`
	Name     string          `json:"name"`
	State    State           `json:"state"`
	Priority int             `json:"priority,omitempty"`
	Timeout  time.Duration   `json:"timeout,omitempty"`
	Retain   time.Duration   `json:"retain,omitempty"`
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
	Started  time.Time       `json:"started,omitzero"`
	Ended    time.Time       `json:"ended,omitzero"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
	Reason   Reason          `json:"reason,omitempty"`
	logEnd
	// Idempotent is copied from the Spec; Starts counts the executions.
	Idempotent bool `json:"idempotent,omitempty"`
	Starts     int  `json:"starts,omitempty"`
}

// logEnd is the end of the log of a task.
type logEnd struct {
	LogTail string `json:"logTail,omitempty"`
	LogSeq  int64  `json:"logSeq,omitempty"` // writes so far
	LogCut  bool   `json:"logCut,omitempty"` // LogTail is not the whole log
}

// task returns the record without the members that only the queue needs.
func (r *record) task() Task {
	return Task{
		ID: r.ID, Owner: r.Owner, Name: r.Name, State: r.State, Created: r.Created, Updated: r.Updated,
		Started: r.Started, Ended: r.Ended, Retain: r.Retain, Result: r.Result, Error: r.Error, Reason: r.Reason,
		LogTail: r.LogTail, LogSeq: r.LogSeq, LogTruncated: r.LogCut,
	}
}

// size is the number of bytes that a kept task counts.
func (r *record) size() int64 {
	return int64(len(r.Result) + len(r.Error) + len(r.LogTail) + 512)
}

// Status is the queue in numbers.
type Status struct {
	Queued      int `json:"queued"`
	Running     int `json:"running"`
	Concurrency int `json:"concurrency"`
	// Max is how many may wait.
	Max int `json:"max"`
}
