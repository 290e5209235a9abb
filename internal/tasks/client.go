package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Defaults of Options.
const (
	DefaultTTL = time.Hour
	defaultMax = 64
)

// Options of a Client.
type Options struct {
	// Wait is how long one request waits for a task before the agent gets the handle.
	Wait time.Duration
	// TTL is how long a handle works, and how long servers are asked to keep the task; 0 is
	// DefaultTTL.
	TTL time.Duration
	// Max bounds the tasks of one principal; 0 is defaultMax.
	Max int
}

// Surroundings are what a Client needs of its gateway.
type Surroundings struct {
	Registry *Registry
	// Ask makes a request about a task to the server of the call's entry, on behalf of the call's
	// session and in the era of the task. Ctx has an mcptask.Offer that says whether an agent
	// server made the task.
	Ask func(ctx context.Context, c *dispatch.Call, modern bool, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error)
	// Place says where the server of a call's entry is.
	Place func(ctx context.Context, upstream string) (Place, error)
	// Outlives reports whether tasks of a server may go on when an agent's session has ended.
	Outlives func(ctx context.Context, upstream string) bool
	// Admit decides again whether the agent may call the entry. It counts no call.
	Admit func(ctx context.Context, c *dispatch.Call) error
	// Begin is called before a restored call reaches its server again, with the method that it asks
	// and its params. An error refuses the request.
	Begin func(ctx context.Context, c *dispatch.Call, method string, params json.RawMessage) error
	// Clean makes a result of a server into one that the steps of a call get.
	Clean func(context.Context, json.RawMessage) (json.RawMessage, error)
	// Asks returns what makes the questions of a server those that an agent gets; see bridge.Back.
	Asks func(upstream string) func(method string, params json.RawMessage) (json.RawMessage, error)
	// Redact removes secrets and invisible characters from a server's text.
	Redact func(string) string
	// More returns the call that continues with a handle, for the model: the first waits, the other
	// cancels.
	More func(handle string) (wait, cancel string)
}

// Place says where a server is, and whose tasks it has.
type Place struct {
	// Server identifies the server for as long as its tasks can live. It is empty for a server whose
	// tasks end with the gateway, such as a program that the gateway starts.
	Server string
	// Shared says that all principals have one connection, so that a task's id names one task.
	Shared bool
}

// Client waits for the tasks that calls become. It is safe for concurrent use and has no goroutines
// but the goroutines of waiting requests.
type Client struct {
	Surroundings
	opts Options
}

// New returns a Client.
func New(in Surroundings, o Options) *Client {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	if o.Max <= 0 {
		o.Max = defaultMax
	}
	return &Client{in, o}
}

// Step waits for the task that a server answers a call with. It stands outside of retries: a call that
// became a task has run.
func (k *Client) Step() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseSettle, Name: "task", Before: k.hasRoom, After: k.settle}
}

// hasRoom refuses a call that becomes a task if its principal has too many.
func (k *Client) hasRoom(_ context.Context, c *dispatch.Call) error {
	if c.Entry.TaskSupport != "" && !k.Registry.room(c.Request.Session.Principal(), k.opts.Max) {
		return k.tooMany(c)
	}
	return nil
}

// settle waits for the task that a call has become.
func (k *Client) settle(ctx context.Context, c *dispatch.Call, err error) error {
	if err != nil || c.MayBe == dispatch.NoTask {
		return err
	}
	made, ok := mcptask.Made(c.Reply)
	if !ok && c.MayBe == dispatch.AgentTask {
		made, ok = k.agentMade(ctx, c, c.Reply)
	}
	if !ok {
		return nil
	}
	c.Ran = false // it runs
	t := &task{
		owner: ownerOf(ctx, c), upstream: c.Entry.Upstream, id: made.ID, modern: made.Modern, agent: made.Agent,
		entryID: c.Entry.ID, entry: c.Entry, created: k.Registry.now(), call: save(c),
	}
	at, _ := k.Place(ctx, t.upstream) // otherwise the task ends with the gateway
	t.server, t.inc, t.sole = at.Server, k.Registry.home(at), at.Shared && !t.agent
	k.Registry.replace(t, at)
	t.set(made, "")
	c.Reply, err = k.first(ctx, c, t, made)
	return err
}

// agentMade returns the task that an agent server's result names. The taskId in a result may be
// something else, so the server is asked: ok is false if it knows no such task.
func (k *Client) agentMade(ctx context.Context, c *dispatch.Call, raw json.RawMessage) (made mcptask.State, ok bool) {
	id, ok := mcptask.AgentMade(raw)
	if !ok {
		return made, false
	}
	answer, err := k.ask(ctx, c, mcptask.State{Agent: true}, mcptask.MethodGet, mcptask.Params(id), nil)
	if err == nil {
		made, ok = mcptask.ReadAgent(answer)
		made.ID = id
		return made, ok
	}
	// A server that cannot be asked now is asked again.
	return mcptask.State{ID: id, Status: "working", Modern: true, Agent: true}, unanswered(err)
}

// ask makes a request about a task of a kind.
func (k *Client) ask(ctx context.Context, c *dispatch.Call, kind mcptask.State, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	return k.Ask(mcptask.WithOffer(ctx, mcptask.Offer{Agent: kind.Agent}), c, kind.Modern && !kind.Agent, method, params, back)
}

// first waits for a task that was just made.
func (k *Client) first(ctx context.Context, c *dispatch.Call, t *task, made mcptask.State) (json.RawMessage, error) {
	w := k.watch(c, t)
	raw, err := w.run(ctx, made, k.Registry.now().Add(k.opts.Wait))
	switch {
	case ctx.Err() != nil:
		_ = w.abandon(ctx) // the agent has cancelled its call and knows no handle
		return nil, ctx.Err()
	case raw != nil || err != nil:
		c.Ran = raw != nil
		return raw, err
	case !k.Registry.add(t, k.opts.TTL, k.opts.Max):
		return w.unkept(ctx, fmt.Sprintf("%d tasks of yours run already (tasks.max)", k.opts.Max), mcp.KindRateLimited.String(), nil)
	}
	if err := k.Registry.keep(t); err != nil {
		return w.unkept(ctx, "the store of this gateway cannot keep its handle", mcp.KindStoreUnavailable.String(), err)
	}
	c.Task = t.handle
	return k.running(c, t), nil
}

func (k *Client) tooMany(c *dispatch.Call) error {
	return &result.Error{Code: result.RateLimited, Message: fmt.Sprintf(
		"%s runs as a task, and %d tasks of yours run already (tasks.max); nothing was run: wait for one, or cancel one", c.Entry.ID, k.opts.Max)}
}

// unkept ends a task that gets no handle, because of why. The server has started it, and it may have ended while the
// store was waited for: the agent gets the result then. Otherwise the error says that the task may have run, so that the
// agent does not run it twice.
func (w *watch) unkept(ctx context.Context, why, kind string, cause error) (json.RawMessage, error) {
	refused := w.abandon(ctx)
	last, stop := context.WithTimeout(ctx, abandonTimeout)
	defer stop()
	if state, err := w.get(last); err == nil && state.Final() && state.Status != "cancelled" {
		return w.end(last, state)
	}
	became := "so the task was cancelled, and what it had done by then stays done"
	if refused != nil {
		became = "the task could not be cancelled and may go on"
	}
	return nil, &result.Error{
		Code: result.UpstreamError, Path: w.task.entryID, Cause: cause, Details: fmt.Appendf(nil, `{"kind":%q,"maybe_ran":true}`, kind),
		Message: fmt.Sprintf("%s runs as a task, and %s: %s; look at what it did before you run it again", w.task.entryID, why, became),
	}
}

// find returns an error if the owner of a call has no task with a handle.
func (k *Client) find(ctx context.Context, c *dispatch.Call, handle string) (*task, error) {
	t, err := k.Registry.look(ctx, ownerOf(ctx, c), handle)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, &result.Error{Code: result.ViewFailed, Path: text.Fit(handle, 60), Message: fmt.Sprintf(
			"no task has the handle %q here: a handle works for the principal whose call made it, at no other profile, for %s (tasks.ttl); without store: file:DIR, or at a server that the gateway starts, it ends with the gateway. Run the tool again", text.Fit(handle, 60), k.opts.TTL)}
	}
	return t, nil
}

// Resume waits for a task with a handle and returns its result, or its status. It is the Sender of a
// Pipeline that shapes results.
func (k *Client) Resume(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	t, err := k.find(ctx, c, c.Task)
	if err != nil {
		return nil, err
	}
	if e := t.failed(); e != nil {
		return nil, e
	}
	method := mcptask.MethodResult
	if t.modern {
		method = mcptask.MethodGet
	}
	if err := k.Begin(ctx, c, method, mcptask.Params(t.id)); err != nil {
		return nil, err
	}
	w := k.watch(c, t)
	raw, err := w.run(ctx, mcptask.State{Modern: t.modern}, k.Registry.now().Add(k.opts.Wait))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // the handle still works
	case err != nil:
		return nil, err
	case raw != nil:
		c.Task, c.Resumed, c.Ran = "", t.deliver(), true
		_ = k.Registry.save(t) // otherwise the server is asked for the result once more
		return raw, nil
	}
	return k.running(c, t), nil
}

// Restore makes a call continue the task of a handle, as far as the agent may still call its tool.
func (k *Client) Restore(ctx context.Context, c *dispatch.Call, handle string) error {
	t, err := k.find(ctx, c, handle)
	if err != nil {
		return err
	}
	if err := k.Registry.resolve(t, c.Catalog); err != nil {
		return err
	}
	if err := k.gone(ctx, t); err != nil {
		return err
	}
	t.restore(c)
	c.Task = handle
	return k.Admit(ctx, c)
}

// gone returns an error if the server of a task's name is not the one that made the task, or has
// given its id to a task of another owner.
func (k *Client) gone(ctx context.Context, t *task) error {
	why := "was restarted and counts its tasks anew"
	if !t.replaced.Load() {
		// A server without a connection is reported by the request to it.
		if at, err := k.Place(ctx, t.upstream); err != nil || at.Server == t.server {
			return nil
		}
		why = "is another one now"
	}
	return t.fail(&result.Error{Code: result.UpstreamError, Path: t.entryID, Message: fmt.Sprintf(
		"the task of %s is gone: its server %q %s; run the tool again if its result is still needed", t.entryID, t.upstream, why)})
}

// Cancel asks the server to end the task of a restored call.
func (k *Client) Cancel(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	t, err := k.find(ctx, c, c.Task)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("%s (%s) is cancelled.", t.handle, t.entry.ID)
	switch {
	case t.failed() != nil:
		return nil, t.failed()
	case t.ended():
		said = fmt.Sprintf("%s (%s) has ended already; its result can still be read.", t.handle, t.entry.ID)
	default:
		if err := k.Begin(ctx, c, mcptask.MethodCancel, mcptask.Params(t.id)); err != nil {
			return nil, err
		}
		w := k.watch(c, t)
		if err := w.cancel(ctx); err != nil {
			return nil, err
		}
		t.fail(w.ended("was cancelled by its agent"))
		_ = k.Registry.save(t) // otherwise the server says that it is cancelled
	}
	c.Task = "" // nothing is left to wait for
	return result.Texts(nil, said), nil
}

// running is what an agent reads of a task that has not ended.
func (k *Client) running(c *dispatch.Call, t *task) json.RawMessage {
	t.mu.Lock()
	state, note := t.state, t.note
	t.mu.Unlock()
	message := text.Line(k.Redact(state.Message), 200)
	if note != "" {
		message = text.Line(k.Redact(note), 300)
	}
	seconds := int(k.Registry.now().Sub(t.created).Seconds())
	if c.Format == result.FormatJSON {
		doc := rawjson.NewWriter(nil).Object().Key("task").Object().Key("handle").String(t.handle).Key("tool_id").String(t.entry.ID).
			Key("status").String(state.Status).Key("message").String(message).Key("seconds").Int(int64(seconds)).EndObject().EndObject().Bytes()
		return forProgram(c, t, result.Texts(doc, string(doc)))
	}
	wait, cancel := k.More(t.handle)
	status := "still running"
	switch {
	case state.Status == "input_required":
		status = "waits for input"
	case state.Message == mcptask.Queued:
		status, message = "is not started yet and "+mcptask.Queued, ""
	}
	if message != "" {
		message = ": " + message
	}
	return forProgram(c, t, result.Texts(nil, fmt.Sprintf("%s %s after %d s%s\nWait for its result: %s\nCancel: %s", t.entry.ID, status, seconds, message, wait, cancel)))
}

// forProgram adds the handle to the _meta of an answer if a program reads it, that is, if it has
// asked for a format. Models have the handle in the text.
func forProgram(c *dispatch.Call, t *task, answer json.RawMessage) json.RawMessage {
	if rawjson.Get(c.Request.Fields().RawMeta, result.MetaFormat) == nil {
		return answer
	}
	if marked, err := rawjson.SetPath(answer, rawjson.Quote(t.handle), "_meta", result.MetaTask); err == nil {
		return marked
	}
	return answer
}

// watch follows one task during one request.
func (k *Client) watch(c *dispatch.Call, t *task) *watch {
	w := &watch{Client: k, call: c, task: t}
	w.back = bridge.Back{Request: c.Request, Server: `server "` + t.upstream + `"`, OnAsk: c.OnAsk, OnTell: c.OnTell, Level: c.Request.Session.LogLevel(), Question: k.Asks(t.upstream)}
	if meta, err := c.Request.Fields().Meta(); err == nil {
		w.token = meta.ProgressToken
	}
	return w
}

// abandonTimeout bounds the cancellation of a task that has no reader.
const abandonTimeout = 5 * time.Second

// abandon cancels a task that has no reader. It works after the end of ctx and of the agent's
// session: an agent that disconnects ends both at once.
//
// The error says that the server has not taken the cancellation. It then forgets the task after its ttl.
func (w *watch) abandon(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(memory.WithoutScope(ctx)), abandonTimeout)
	defer stop()
	session := w.call.Request.Session
	err := mcp.ErrNotSent
	if !hasEnded(session) {
		err = w.cancel(ctx)
	}
	if err == nil || !hasEnded(session) || !w.Outlives(ctx, w.task.upstream) {
		return err
	}
	// A connection that the session had for itself is closed. The task belongs to the principal.
	own := mcp.NewSession("", session.Principal())
	defer own.Close()
	w.call = &dispatch.Call{Entry: w.call.Entry, Pass: w.call.Pass.Kept(), Request: &mcp.Request{Method: w.call.Request.Method, Session: own, Peer: mcp.NoPeer}}
	return w.cancel(ctx)
}

func hasEnded(s *mcp.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}
