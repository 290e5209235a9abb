package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/result"
)

// outcome says what became of a call.
type outcome int

const (
	ran      outcome = iota // it has a result
	erred                   // it has failed, and did nothing
	unclear                 // it may have run
	replayed                // the journal had its result
	outcomes
)

var outcomeNames = [outcomes]string{"ok", "error", "unknown", "from_journal"}

// report counts the calls of a run by tool, in the order in which the program first called them.
type report struct {
	tools []*toolReport
	of    map[string]*toolReport
}

type toolReport struct {
	id     string
	writes bool
	n      [outcomes]int
}

// note counts a call.
func (r *Run) note(tool Tool, what outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.report.of == nil {
		r.report.of = map[string]*toolReport{}
	}
	one := r.report.of[tool.ID]
	if one == nil {
		one = &toolReport{id: tool.ID, writes: !tool.ReadOnly}
		r.report.of[tool.ID] = one
		r.report.tools = append(r.report.tools, one)
	}
	one.n[what]++
}

// Counts are the calls of a run.
type Counts struct {
	Calls  int // that were made, and answered or not
	Writes int // of those, the ones that have run at tools that are not read-only
	Kept   int // that the journal answered
}

// Counts returns the calls of the run until now.
func (r *Run) Counts() (n Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.report.tools {
		n.Calls += t.n[ran] + t.n[erred] + t.n[unclear]
		n.Kept += t.n[replayed]
		if t.writes {
			n.Writes += t.n[ran] + t.n[unclear]
		}
	}
	return n
}

// maxReported bounds the tools in an answer.
const maxReported = 50

// Calls returns the id and the calls of the run as a JSON object, for programs that ask for runs.
func (r *Run) Calls() json.RawMessage {
	return rawjson.NewWriter(nil).Object().Key("run").String(r.ID).Key("calls").Raw(r.appendCalls(nil)).EndObject().Bytes()
}

// appendCalls appends the calls of the run as a JSON array: one object for each tool.
func (r *Run) appendCalls(dst []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := rawjson.NewWriter(dst).Array()
	for i, t := range r.report.tools {
		if i == maxReported {
			w.Object().Key("more_tools").Int(int64(len(r.report.tools) - i)).EndObject()
			break
		}
		w.Object().Key("tool_id").String(t.id).Key("writes").Bool(t.writes)
		for what, n := range t.n {
			if n > 0 {
				w.Key(outcomeNames[what]).Int(int64(n))
			}
		}
		w.EndObject()
	}
	return w.EndArray().Bytes()
}

// maxFailureLog bounds the log in the answer of a run that failed, in bytes. Its end says most.
const maxFailureLog = 2000

// failure returns the error of a run that failed: where, which calls ran, and how to go on.
func (r *Run) failure(ctx context.Context, err error, log []string, kept bool) error {
	if ctx.Err() != nil {
		return ctx.Err() // the client is gone
	}
	var own *result.Error
	var of *program.Error
	if !errors.As(err, &of) {
		if errors.As(err, &own) {
			of = &program.Error{Code: program.Code(own.Code), Message: own.Message}
		} else {
			return &result.Error{Code: result.ProgramFailed, Message: r.request.Tool + ": the program could not be run; the operator finds the reason in the log of weir", Cause: err}
		}
	}
	n := r.Counts()
	w := rawjson.NewWriter(nil).Object().Key("reason").String(string(of.Code))
	if of.Line > 0 {
		w.Key("line").Int(int64(of.Line)).Key("column").Int(int64(of.Column))
	}
	if of.Source != "" {
		w.Key("source").String(of.Source)
	}
	if of.Tool != nil {
		if raw, err := json.Marshal(of.Tool); err == nil {
			w.Key("tool_error").Raw(raw)
		}
	}
	w.Key("calls").Raw(r.appendCalls(nil))
	message := r.request.Tool + ": " + of.Error()
	if n.Calls+n.Kept > 0 {
		message += fmt.Sprintf(". %s made, %s may have changed something", counted(n.Calls, "call was", "calls were"), counted(n.Writes, "of them", "of them"))
	}
	if kept {
		w.Key("run").String(r.ID)
		mend := "Mend the program and pass"
		if r.request.Fixed {
			mend = "Call it again with"
		}
		message += ". " + mend + ` resume "` + r.ID + `": calls that have a result are not made again`
	}
	if lines := strings.Join(log, "\n"); lines != "" {
		if len(lines) > maxFailureLog {
			lines = "…" + strings.ToValidUTF8(lines[len(lines)-maxFailureLog:], "")
		}
		w.Key("log").String(lines)
	}
	return &result.Error{Code: result.ProgramFailed, Message: message, Details: w.EndObject().Bytes()}
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
