package api

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/observe/history"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// aCall is one call, with the member names of the event log. It has no arguments and no results: see exchange.
type aCall struct {
	ID         string    `json:"id"`
	Time       time.Time `json:"time"` // of its end
	Event      string    `json:"event"`
	Session    string    `json:"session,omitempty"`
	Principal  string    `json:"principal,omitempty"`
	Client     string    `json:"client,omitempty"` // the name that the client gives itself
	MetaTool   string    `json:"meta_tool,omitempty"`
	Run        string    `json:"run,omitempty"` // of the program that makes the call, or that it runs
	Method     string    `json:"method,omitempty"`
	ToolID     string    `json:"tool_id,omitempty"`
	Upstream   string    `json:"upstream,omitempty"`
	DurationMS float64   `json:"duration_ms"`
	// Steps is the time of each step of the way through the gateway; absent: it was not measured.
	Steps      map[string]float64 `json:"steps_ms,omitempty"`
	Attempts   int                `json:"attempts,omitempty"`
	Code       string             `json:"code,omitempty"`
	IsError    bool               `json:"is_error,omitempty"`
	DryRun     bool               `json:"dry_run,omitempty"`
	Unread     bool               `json:"unread,omitempty"`
	Scope      string             `json:"scope,omitempty"`
	Decision   string             `json:"decision,omitempty"`    // of the policy
	Rule       string             `json:"rule,omitempty"`        // that decided: policy.rules[2]
	TokensRead *int               `json:"tokens_read,omitempty"` // absent: not counted yet
	TokensRaw  *int               `json:"tokens_raw,omitempty"`
	Detail     string             `json:"detail,omitempty"`
}

// callsAnswer is the answer of calls.
type callsAnswer struct {
	Calls []aCall `json:"calls"` // the newest first
	// Before is the parameter that asks for older calls; absent: there are none.
	Before string `json:"before,omitempty"`
	// Captures: arguments and results of calls are kept for operators.
	Captures bool `json:"captures"`
}

// calls serves calls: the history of calls that the viewer may see, the newest first.
//
//	session=, principal=, server=, tool=, run=   only calls of these
//	errors=1                   only calls that ended with an error
//	before=ID                  only calls before this one
//	limit=N                    at most N; 100 without it
func (a *API) calls(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r, maxLimit)
	if err != nil {
		return err
	}
	query, book := r.URL.Query(), a.o.Look.History
	before := uint64(math.MaxUint64)
	if given := query.Get("before"); given != "" {
		n, known := book.Number(given)
		if !known {
			return mcp.Errorf(mcp.KindNotFound, "there is no call %q: the gateway was started again", text.Line(given, 40))
		}
		before = n
	}
	session, server, tool, errors := query.Get("session"), query.Get("server"), query.Get("tool"), query.Get("errors") == "1"
	principal, run := query.Get("principal"), query.Get("run")
	sees := a.seer(r.Context())
	found, more := book.Recent(before, p.Limit, func(e *telemetry.Event) bool {
		return history.IsCall(e) && sees(e) && (session == "" || e.Session == session) && (principal == "" || e.Principal == principal) && (run == "" || e.Run == run) && (server == "" || e.Upstream == server) &&
			(tool == "" || strings.HasPrefix(e.ToolID, tool)) && (!errors || history.Failed(e))
	})
	out := callsAnswer{Calls: make([]aCall, len(found)), Captures: a.o.Look.Captures != nil && a.o.Look.Captures()}
	for i := range found {
		out.Calls[i] = callOf(book.ID(found[i].Number), &found[i].Event)
	}
	if more {
		out.Before = out.Calls[len(found)-1].ID
	}
	return write(w, out)
}

func callOf(id string, e *telemetry.Event) aCall {
	c := aCall{
		ID: id, Time: e.Time.UTC(), Event: e.Name, Session: e.Session, Principal: e.Principal, Client: e.Client, MetaTool: e.MetaTool, Run: e.Run, Method: e.Method, ToolID: e.ToolID,
		Upstream: e.Upstream, DurationMS: float64(e.Duration.Microseconds()) / 1000, Steps: e.Steps.Milliseconds(), Attempts: e.Attempts, Code: e.Code, IsError: e.IsError,
		DryRun: e.DryRun, Unread: e.Unread, Scope: e.Scope,
		Decision: e.Decision, Rule: e.Rule, Detail: e.Detail,
	}
	if e.Counted {
		c.TokensRead, c.TokensRaw = &e.TokensRead, &e.TokensRaw
	}
	return c
}

// exchangeAnswer is the answer of calls/{id}/exchange.
type exchangeAnswer struct {
	ID        string    `json:"id"`
	Arguments *document `json:"arguments"`
	Result    *document `json:"result"`
}

// exchange serves calls/{id}/exchange: the arguments and the result of a call.
func (a *API) exchange(w http.ResponseWriter, r *http.Request) error {
	id, book := r.PathValue("id"), a.o.Look.History
	number, known := uint64(0), false
	if book != nil {
		number, known = book.Number(id)
	}
	if !known {
		return mcp.Errorf(mcp.KindNotFound, "there is no call %q: the gateway was started again", text.Line(id, 40))
	}
	kept := book.Exchange(number)
	if kept == nil {
		return mcp.Errorf(mcp.KindNotFound, "the arguments and the result of this call are not kept: console.capture was off, the call was at /mcps/NAME/mcp, or %d newer calls have taken its place", history.KeptExchanges)
	}
	a.o.Logger.Info("an operator reads the arguments and the result of a call", "operator", identity.From(r.Context()).Principal, "call", id)
	a.o.Operated(r.Context(), audit.Role, "", "", "", "reads the arguments and the result of call "+id)
	out := exchangeAnswer{ID: id, Arguments: show(kept.Arguments), Result: show(kept.Result)}
	if out.Arguments != nil {
		out.Arguments.Cut = out.Arguments.Cut || kept.ArgumentsCut
	}
	if out.Result != nil {
		out.Result.Cut = out.Result.Cut || kept.ResultCut
	}
	return write(w, out)
}

// figures are sums of calls.
type figures struct {
	Calls  int64 `json:"calls"`
	Errors int64 `json:"errors"`
	Read   int64 `json:"tokens_read"`
	Raw    int64 `json:"tokens_raw"` // without the gateway
	// P50 and P95 are bounds of the durations of half of the calls and of 95 of 100, within 41 %.
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
}

func figuresOf(f history.Figures) figures {
	ms := func(d time.Duration) float64 { return math.Round(float64(d.Microseconds())/100) / 10 }
	return figures{f.Calls, f.Errors, f.TokensRead, f.TokensRaw, ms(f.P50), ms(f.P95)}
}

// stepFigures are the figures of one step.
type stepFigures struct {
	Time time.Time `json:"time"` // its start
	figures
}

// figuresAnswer is the answer of figures.
type figuresAnswer struct {
	Now  time.Time `json:"now"`
	Step int       `json:"step_seconds"`
	// Own: only the viewer's own calls, of those that are remembered.
	Own   bool          `json:"own"`
	Total figures       `json:"total"`
	Steps []stepFigures `json:"steps"` // the oldest first; without those that have no call
}

// figures serves figures: calls, errors, tokens and durations of the last day.
func (a *API) figures(w http.ResponseWriter, r *http.Request) error {
	now, book := time.Now(), a.o.Look.History
	out := figuresAnswer{Now: now.UTC(), Step: int(history.Step / time.Second), Own: !a.o.Look.Gateway.SeesAll(r.Context()), Steps: []stepFigures{}}
	total, steps := book.Day(now)
	if out.Own {
		total, steps = book.DayOf(now, a.seer(r.Context()))
	}
	out.Total = figuresOf(total)
	for _, s := range steps {
		out.Steps = append(out.Steps, stepFigures{s.Start, figuresOf(s.Figures)})
	}
	return write(w, out)
}
