package passthrough

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const (
	// taskTimeout bounds a request about a task; the agent has the answer ready.
	taskTimeout = 30 * time.Second
	// maxTask bounds the answer. An agent server also bounds results.
	maxTask = 32 << 20
	// maxTaskID bounds a task's id.
	maxTaskID = mcptask.MaxID
)

// serveTask reports the task of an async tool's answer:
//
//	GET /mcps/{name}/task?taskId=…  ─▶ agent server: GET /getTaskStatus?taskId=… ─▶ as it answers
//	                                └▶ any other:    tasks/get, tasks/result     ─▶ in the same form
//
// DELETE cancels the task.
func (f *face) serveTask(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodDelete {
		w.Header().Set("Allow", "GET, DELETE")
		guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: GET, DELETE", r.Method))
		return
	}
	id := r.URL.Query().Get("taskId")
	if id == "" || len(id) > maxTaskID {
		writeError(w, "", mcp.Errorf(mcp.KindInvalidParams, "which task? Its id, which the tool was answered with, is the parameter taskId"))
		return
	}
	if f.taskElsewhere(w, r, "", id, func() io.ReadCloser { return http.NoBody }, 0) {
		return
	}
	if err := f.limiter.enter(f.name, f.rt.limits(f.name), time.Now(), 1); err != nil {
		writeError(w, "", err)
		return
	}
	defer f.limiter.leave(1)
	ctx, cancel := context.WithTimeout(r.Context(), taskTimeout)
	defer cancel()
	asked := f.pass.taskRequest(guard.Principal(r.Context()), id, r.Method == http.MethodDelete)
	if f.pass.judged() {
		if _, err := f.pass.admit(mcp.WithCaller(ctx, asked.Session), asked); err != nil {
			writeError(w, "", err)
			return
		}
	}
	recorded, err := begin(ctx, f.pass.audit, f.name, asked)
	if err != nil {
		writeError(w, "", err)
		return
	}
	answer, err := f.answerTask(ctx, w, r, id)
	if recorded != nil {
		recorded.Ended(answer, err)
	}
}

// answerTask writes the server's answer about a task. It returns the answer, for the audit log.
func (f *face) answerTask(ctx context.Context, w http.ResponseWriter, r *http.Request, id string) ([]byte, error) {
	if t, ok := f.up.Target(); ok {
		if t.Process {
			release, err := f.up.Hold(ctx, false)
			if err != nil {
				f.unready(w, r, envelope{}, nil, err)
				return nil, err
			}
			defer release(nil)
		}
		if ok, answer, err := f.agentTask(ctx, w, r, t, id); ok {
			return answer, err
		}
	}
	answer, err := f.peerTask(ctx, guard.Principal(r.Context()), id, r.Method == http.MethodDelete)
	if err == nil {
		answer, err = f.pass.shownTask(ctx, guard.Principal(r.Context()), id, answer)
	}
	if err != nil {
		err = taskFailure(err)
		if r.Context().Err() == nil {
			writeError(w, "", err)
		}
		return nil, err
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{streamable.ContentJSON}, []string{"no-store"}
	_, _ = w.Write(answer)
	return answer, nil
}

// taskRequest returns the message that stands for a request about a task without one: a reported
// task may come with its result. There is no session in which a person could be asked.
func (p *passthrough) taskRequest(principal, id string, cancel bool) *mcp.Request {
	r := &mcp.Request{ID: "1", Method: "tasks/result", Params: taskParams(id), Session: p.sessionless.of(principal), Peer: mcp.NoPeer}
	if cancel {
		r.Method = "tasks/cancel"
	}
	return r
}

// shownTask is shown for the answer about a task that is requested without a message.
func (p *passthrough) shownTask(ctx context.Context, principal, id string, answer json.RawMessage) (json.RawMessage, error) {
	if !p.judged() {
		return answer, nil
	}
	r := p.taskRequest(principal, id, false)
	return p.shown(mcp.WithCaller(ctx, r.Session), r, answer)
}

func taskParams(id string) json.RawMessage {
	return append(rawjson.AppendString([]byte(`{"taskId":`), id), '}')
}

// agentTask asks an agent server. If the upstream is not an agent server, it returns false and
// writes nothing.
func (f *face) agentTask(ctx context.Context, w http.ResponseWriter, r *http.Request, t Target, id string) (ok bool, answer []byte, err error) {
	to := mcptask.AgentTaskURL(t.URL, id)
	var h http.Header
	transport := f.rt.o.peer(f.name)
	if transport != nil {
		h = peerHeader(r, true, f.rt.o.AgentHeaders())
	} else {
		h, transport = requestHeader(r, true, t.Header), f.rt.forward.transport
	}
	f.rt.o.Loops.set(h, f.via)
	if err := f.rt.o.Sign.set(h, f.name, guard.Principal(r.Context()), ""); err != nil {
		writeError(w, "", err)
		return true, nil, err
	}
	req := (&http.Request{
		Method: r.Method, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
	}).WithContext(ctx)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		switch {
		case r.Context().Err() != nil:
			return true, nil, r.Context().Err()
		case ctx.Err() != nil:
			err = tooSlow(f.name, "getTaskStatus", taskTimeout)
		default:
			err = transportFailure(f.name, err)
		}
		writeError(w, "", err)
		return true, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTask+1))
	switch {
	case err != nil && r.Context().Err() == nil:
		err = transportFailure(f.name, err)
		writeError(w, "", err)
		return true, nil, err
	case len(body) > maxTask:
		err = mcp.Errorf(mcp.KindUpstreamProtocol, "agent %q told more than %d bytes of a task", f.name, maxTask)
		writeError(w, "", err)
		return true, nil, err
	}
	body = rawjson.RepairText(body)
	if !rawjson.IsObject(body) || !json.Valid(body) || !aboutTask(body) {
		return false, nil, nil // another program answers there, or none
	}
	if body, err = f.pass.shownTask(ctx, guard.Principal(r.Context()), id, body); err != nil {
		writeError(w, "", err)
		return true, nil, err
	}
	out := w.Header()
	out["Content-Type"], out["Cache-Control"] = []string{streamable.ContentJSON}, []string{"no-store"}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body)
	return true, body, taskError(body)
}

// taskError returns the error in an agent's answer about a task, nil if there is none.
func taskError(body []byte) error {
	raw := rawjson.Get(body, "error")
	if !rawjson.IsObject(raw) {
		return nil
	}
	e := &jsonrpc.Error{}
	if json.Unmarshal(raw, e) != nil {
		return mcp.Errorf(mcp.KindUpstreamProtocol, "the error of the agent cannot be read")
	}
	return e
}

// aboutTask reports whether an answer comes from an agent server: it is a task, or an error with a
// code or a text. Other servers have no such page.
func aboutTask(body []byte) bool {
	return rawjson.IsObject(rawjson.Get(body, "task")) || rawjson.Get(body, "jsonrpc") != nil
}

// statuses maps MCP's task states to the states of agent servers.
var statuses = map[string]string{
	"submitted": "pending", "working": "running", "input_required": "running",
	"completed": "completed", "failed": "failed", "cancelled": "cancelled",
}

// peerTask asks a server that has tasks as MCP defines them, on behalf of the principal's own
// session.
func (f *face) peerTask(ctx context.Context, principal, id string, cancel bool) (json.RawMessage, error) {
	ctx = mcp.WithCaller(ctx, f.pass.sessionless.of(principal))
	params := taskParams(id)
	method := "tasks/get"
	if cancel {
		method = "tasks/cancel"
	}
	if err := f.pass.checkTask(ctx, principal, method, params); err != nil {
		if kind, _ := mcp.KindOf(err); kind == mcp.KindStoreUnavailable {
			return nil, err
		}
		return nil, mcp.Errorf(mcp.KindNotFound, "task not found: %s", clip(id))
	}
	back := &mcp.Mux{}
	got, err := f.up.Call(ctx, method, params, back)
	if err != nil {
		return nil, err
	}
	status := rawjson.Text(rawjson.Get(got, "status"))
	task := struct {
		ID        string          `json:"id"`
		Status    string          `json:"status"`
		CreatedAt string          `json:"createdAt,omitempty"`
		UpdatedAt string          `json:"updatedAt,omitempty"`
		Error     *string         `json:"error"`
		Result    json.RawMessage `json:"result"`
	}{ID: id, Status: statuses[status], CreatedAt: rawjson.Text(rawjson.Get(got, "createdAt")), UpdatedAt: rawjson.Text(rawjson.Get(got, "lastUpdatedAt")), Result: json.RawMessage("null")}
	if task.Status == "" {
		task.Status = "running"
	}
	switch result := rawjson.Get(got, "result"); {
	case result != nil: // 2026-07-28 has it here
		task.Result = result
	case task.Status == "completed" && !cancel:
		if task.Result, err = f.up.Call(ctx, "tasks/result", params, back); err != nil {
			return nil, err
		}
	case task.Status == "failed":
		message := rawjson.Text(rawjson.Get(got, "statusMessage"))
		task.Error = &message
	}
	return json.Marshal(map[string]any{"task": task})
}

// taskFailure returns the error for a task that could not be read. An upstream's error keeps its
// code.
func taskFailure(err error) error {
	err = failedToReach(err)
	if _, ours := mcp.KindOf(err); ours {
		return err
	}
	if wire := mcp.WireError(err, ""); wire.Code == jsonrpc.CodeMethodNotFound {
		return mcp.Errorf(mcp.KindMethodNotFound, "this agent has no tasks")
	}
	return err
}
