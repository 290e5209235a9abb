package calls

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Outcomes of calls. Others are names of errors.
const (
	OK        = "ok"
	ToolError = "tool_error" // the tool itself says that it failed
	cached    = "cached"
)

// A Recorder writes records of calls. It is safe for concurrent use. A nil Recorder writes none.
type Recorder struct {
	log    *audit.Log
	form   audit.Form
	redact func([]byte) []byte
	prefix string // of call ids: they differ between runs
	last   atomic.Uint64
}

// New returns a Recorder. redact removes secrets from a JSON value. A nil log makes a nil Recorder.
func New(log *audit.Log, form audit.Form, redact func([]byte) []byte) *Recorder {
	if log == nil {
		return nil
	}
	return &Recorder{log: log, form: form, redact: redact, prefix: rand.Text()[:8] + "-"}
}

// Log returns the log, nil for a nil Recorder.
func (r *Recorder) Log() *audit.Log {
	if r == nil {
		return nil
	}
	return r.log
}

// A Call is a request of a caller to a server.
type Call struct {
	Request *mcp.Request
	Method  string // at the server; "" is the request's
	Server  string
	ToolID  string
	// Args are the arguments that the server gets, as JSON. They are read before Begin returns.
	Args []byte
	// Handle is the handle of the task that the call continues, "" for a new call.
	Handle string
	// Run is the run of the program that makes the call or is run by it, "" for none. Detail is one line about it.
	Run, Detail string
	// Labels are the labels of what the call gets, or of what its arguments carry.
	Labels []string
	// Decision and Rule are of the policy, "" without one.
	Decision, Rule string
}

// record fills in a record about a call, without its arguments.
func (r *Recorder) record(ctx context.Context, out *audit.Record, kind audit.Kind, c *Call) {
	fill(ctx, out, kind)
	out.Method, out.Server, out.ToolID, out.Decision, out.Rule = c.Method, c.Server, c.ToolID, c.Decision, c.Rule
	out.Handle, out.Run, out.Detail = c.Handle, c.Run, c.Detail
	out.Labels = c.Labels
	if c.Request != nil {
		of(c.Request, out)
	}
}

// of fills in the caller of a request.
func of(request *mcp.Request, out *audit.Record) {
	if out.Method == "" {
		out.Method = request.Method
	}
	// The session knows its principal also where the context does not tell who calls.
	if p := request.Session.Principal(); p != "" && p != out.Principal {
		out.Principal, out.Issuer, out.Client = p, "", ""
	}
	if id := request.Session.ID(); id != "" {
		out.Session = telemetry.SessionTag(id)
	}
	if meta := request.Fields().RawMeta; meta != nil {
		if parent := rawjson.Text(rawjson.Get(meta, "traceparent")); len(parent) == 55 && out.Trace == "" {
			out.Trace = parent[3:35]
		}
	}
}

// Caller returns a record with the caller of a request, from its context.
func Caller(ctx context.Context, kind audit.Kind) *audit.Record {
	out := &audit.Record{}
	fill(ctx, out, kind)
	return out
}

// fill sets out to the result of Caller.
func fill(ctx context.Context, out *audit.Record, kind audit.Kind) {
	id := identity.From(ctx)
	out.Time, out.Kind, out.IP, out.Trace = time.Now(), kind, identity.RouteOf(ctx).Source, trace.ID(ctx)
	out.Principal, out.Issuer, out.Client = id.Principal, id.Issuer, id.Client
}

// An Open call has started and not ended. A nil Open does nothing.
type Open struct {
	by         *Recorder
	begun, end audit.Record // one allocation holds both
	labels     []string     // at the end; nil: as at its start
}

// Begin records that a call is about to reach a server. The error is an *mcp.Error of
// mcp.KindAuditUnavailable, the error of mcp.NoRoom, or the error of ctx; the call must not go on then.
func (r *Recorder) Begin(ctx context.Context, c *Call) (*Open, error) {
	if r == nil {
		return nil, nil
	}
	open := &Open{by: r}
	begun := &open.begun
	r.record(ctx, begun, audit.Begin, c)
	begun.Call = r.prefix + strconv.FormatUint(r.last.Add(1), 36)
	var err error
	if begun.Args, err = r.log.Keys().Arguments(ctx, r.form, c.Args, r.redact); err != nil {
		return nil, mcp.NoRoom("the call was not made: its record in the audit log", err)
	}
	if err := r.log.Sync(ctx, begun); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, mcp.Errorf(mcp.KindAuditUnavailable, "the call was not made: audit.required is set, and the gateway cannot write its audit log; its operator finds the reason in the log of weir: %w", err)
	}
	return open, nil
}

// Labelled says which labels the call has at its end; its result may add some.
func (o *Open) Labelled(labels []string) {
	if o != nil {
		o.labels = labels
	}
}

// End records the outcome of a call. It reads the result before it returns.
func (o *Open) End(outcome string, result []byte) {
	if o == nil {
		return
	}
	digest := ""
	if o.by.form != audit.FormNone {
		digest = o.by.log.Keys().Digest(result)
	}
	o.EndDigest(outcome, digest)
}

// Digest returns a digest for a result that arrives in pieces, nil if the log has none.
func (o *Open) Digest() *audit.Digest {
	if o == nil || o.by.form == audit.FormNone {
		return nil
	}
	return o.by.log.Keys().NewDigest()
}

// EndDigest is End for a result of which the digest is known, "" for none.
func (o *Open) EndDigest(outcome, digest string) {
	if o == nil {
		return
	}
	end := &o.end
	*end = o.begun
	end.Kind, end.Time, end.Args, end.Decision, end.Rule = audit.End, time.Now(), nil, "", ""
	end.Detail = ""
	if o.labels != nil {
		end.Labels = o.labels
	}
	end.Took, end.Outcome, end.Result = end.Time.Sub(o.begun.Time), outcome, digest
	o.by.log.Add(end)
}

// argsOf returns the arguments of a call that the log records in any case.
func (r *Recorder) argsOf(ctx context.Context, c *Call) []byte {
	args, err := r.log.Keys().Arguments(ctx, r.form, c.Args, r.redact)
	if err != nil {
		return r.log.Keys().Unread(c.Args)
	}
	return args
}

// Refused records a request that reached no server.
func (r *Recorder) Refused(ctx context.Context, c *Call, outcome string) {
	if r == nil {
		return
	}
	out := &audit.Record{}
	r.record(ctx, out, audit.Refusal, c)
	out.Args, out.Outcome = r.argsOf(ctx, c), outcome
	r.log.Add(out)
}

// Cached records a call whose answer was kept from an earlier one.
func (r *Recorder) Cached(ctx context.Context, c *Call, result []byte) {
	if r == nil {
		return
	}
	out := &audit.Record{}
	r.record(ctx, out, audit.End, c)
	out.Args, out.Outcome = r.argsOf(ctx, c), cached
	if r.form != audit.FormNone {
		out.Result = r.log.Keys().Digest(result)
	}
	r.log.Add(out)
}

// maxSelector bounds a selector in a record.
const maxSelector = 1 << 10

// Viewed records that a part of a held result was shown. The selector can quote the result, so it is
// in the form of arguments.
func (r *Recorder) Viewed(ctx context.Context, c *Call, handle string, selector, shown []byte) {
	if r == nil {
		return
	}
	out := &audit.Record{}
	r.record(ctx, out, audit.View, c)
	out.Handle, out.Outcome = handle, OK
	if r.form != audit.FormNone {
		out.Result = r.log.Keys().Digest(shown)
	}
	if len(selector) <= maxSelector {
		out.Selector = r.argsOf(ctx, &Call{Args: selector})
	}
	r.log.Add(out)
}

// Outcome names the outcome of a call from its error and from the result's isError.
func Outcome(err error, isError bool) string {
	var answered *jsonrpc.Error
	switch {
	case err == nil && isError:
		return ToolError
	case err == nil:
		return OK
	case errors.As(err, &answered):
		return "error " + strconv.Itoa(answered.Code)
	}
	kind, _ := mcp.KindOf(err)
	return strings.ToLower(kind.String())
}
