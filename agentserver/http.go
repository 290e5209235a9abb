package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/mcp"
)

// Handler returns the agent's HTTP face: /mcp, the tasks, and its health.
func (s *Server) Handler() http.Handler {
	g := guard.New(guard.Options{
		Hosts: s.o.AllowedHosts, Origins: s.o.AllowedOrigins, Authenticate: guard.ByName(s.o.Authenticate), Realm: s.name, Logger: s.log,
	})
	inner := http.NewServeMux()
	inner.Handle("/mcp", s.http)
	// The same as behind a router, so that a client may do without one.
	inner.HandleFunc("/mcps/{agent}/mcp", func(w http.ResponseWriter, r *http.Request) {
		if err := s.checkAgent(r); err != nil {
			guard.WriteError(w, http.StatusNotFound, "", err)
			return
		}
		s.http.ServeHTTP(w, r)
	})
	for _, path := range []string{"/getTaskStatus", "/task", "/mcps/{agent}/task"} {
		inner.HandleFunc("GET "+path, s.serveTask)
		inner.HandleFunc("DELETE "+path, s.serveCancel)
	}
	outer := http.NewServeMux()
	guarded := s.vouched(inner)
	if s.required != nil {
		guarded = s.verified(inner)
	}
	outer.Handle("/", g.Wrap(guarded))
	// A liveness check needs no token, but a Host header of this machine. If tokens are required,
	// further details need one.
	open := guard.New(guard.Options{Hosts: s.o.AllowedHosts, Origins: s.o.AllowedOrigins, Logger: s.log})
	alive, health := open.Wrap(http.HandlerFunc(s.serveAlive)), g.Wrap(http.HandlerFunc(s.serveHealth))
	for _, path := range []string{"GET /health", "GET /healthz"} {
		outer.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if s.o.Authenticate != nil && r.Header.Get("Authorization") == "" {
				alive.ServeHTTP(w, r)
				return
			}
			health.ServeHTTP(w, r)
		})
	}
	return outer
}

type claimsKey struct{}

// verified admits requests with a token of the agent's router.
func (s *Server) verified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.verify(w, r, []*invocation.Verifier{s.required}, next)
	})
}

// vouched takes the principal of a request from a token of the agent's router. Requests without
// such a token are admitted unchanged.
func (s *Server) vouched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := s.router.Load(); v != nil && r.Header.Get(invocation.Header) != "" {
			s.verify(w, r, *v, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// verify admits a request with a token that one of the verifiers accepts.
func (s *Server) verify(w http.ResponseWriter, r *http.Request, by []*invocation.Verifier, next http.Handler) {
	var claims invocation.Claims
	var err error
	for _, v := range by {
		c, refusal := v.Verify(r.Header.Get(invocation.Header))
		if claims = c; refusal == nil {
			err = nil
			break
		}
		if err == nil || !errors.Is(refusal, invocation.ErrSignature) {
			err = refusal // only the result of the secret that has signed counts
		}
	}
	if err != nil {
		s.log.Warn("a request did not come through the router", "remote", r.RemoteAddr, "err", err)
		guard.Refuse(w, r, http.StatusUnauthorized, mcp.Errorf(mcp.KindUnauthorized, "%v", err))
		return
	}
	ctx := context.WithValue(guard.WithPrincipal(r.Context(), claims.Principal), claimsKey{}, claims)
	next.ServeHTTP(w, r.WithContext(ctx))
}

// checkClaims refuses a call of another tool than the token's.
func checkClaims(ctx context.Context, tool string) error {
	claims, ok := ctx.Value(claimsKey{}).(invocation.Claims)
	if ok && claims.Tool != tool {
		return mcp.Errorf(mcp.KindPermissionDenied, "the invocation token is for the tool %q, not for %q", clip(claims.Tool), tool)
	}
	return nil
}

// taskStatus is a task in the form of /getTaskStatus.
type taskStatus struct {
	ID           string          `json:"id"`
	ToolName     string          `json:"toolName"`
	Status       queue.State     `json:"status"`
	CreatedAt    string          `json:"createdAt"`
	UpdatedAt    string          `json:"updatedAt"`
	Error        *string         `json:"error"`
	Result       json.RawMessage `json:"result"`
	LogTail      string          `json:"logTail"`
	LogSeq       int64           `json:"logSeq"`
	LogTruncated bool            `json:"logTruncated"`
}

// checkAgent refuses a path with another agent's name.
func (s *Server) checkAgent(r *http.Request) error {
	if agent := r.PathValue("agent"); agent != "" && agent != s.name {
		return mcp.Errorf(mcp.KindNotFound, "Agent '%s' not found; this is %q", clip(agent), s.name)
	}
	return nil
}

func (s *Server) serveTask(w http.ResponseWriter, r *http.Request) {
	s.answerTask(w, r, s.queue.Get)
}

func (s *Server) serveCancel(w http.ResponseWriter, r *http.Request) {
	s.answerTask(w, r, s.queue.Cancel)
}

// answerTask answers with a task of the caller.
func (s *Server) answerTask(w http.ResponseWriter, r *http.Request, find func(owner, id string) (queue.Task, error)) {
	id := r.URL.Query().Get("taskId")
	if id == "" {
		guard.WriteError(w, http.StatusBadRequest, "", mcp.Errorf(mcp.KindInvalidParams, "missing taskId: ask for %s?taskId=…", r.URL.Path))
		return
	}
	if err := s.checkAgent(r); err != nil {
		guard.WriteError(w, http.StatusNotFound, "", err)
		return
	}
	t, err := find(guard.Principal(r.Context()), id)
	if err != nil {
		status, kind := http.StatusNotFound, mcp.KindNotFound
		if !errors.Is(err, queue.ErrNotFound) {
			status, kind = http.StatusInternalServerError, mcp.KindInternal
		}
		guard.WriteError(w, status, "", mcp.Errorf(kind, "task not found: %s", clip(id)))
		return
	}
	told := taskStatus{
		ID: t.ID, ToolName: t.Name, Status: t.State, CreatedAt: stamp(t.Created), UpdatedAt: stamp(t.Updated),
		Result: t.Result, LogTail: t.LogTail, LogSeq: t.LogSeq, LogTruncated: t.LogTruncated,
	}
	if t.Error != "" {
		told.Error = &t.Error
	}
	writeJSON(w, http.StatusOK, map[string]any{"task": told})
}

// state returns the agent's state in one word, and the matching HTTP status.
func (s *Server) state() (status string, code int) {
	if s.closing.Load() {
		return "stopping", http.StatusServiceUnavailable
	}
	return "ok", http.StatusOK
}

// serveAlive reports that the agent answers, without details.
func (s *Server) serveAlive(w http.ResponseWriter, _ *http.Request) {
	status, code := s.state()
	writeJSON(w, code, map[string]string{"status": status})
}

// serveHealth reports the agent's health.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	status, code := s.state()
	q := s.queue.Status()
	writeJSON(w, code, map[string]any{
		"status": status, "uptime": int64(time.Since(s.started) / time.Second), "name": s.name, "server": json.RawMessage(s.info),
		"tools": len(s.offer.Load().tools), "queue": map[string]int{"queued": q.Queued, "running": q.Running, "concurrency": q.Concurrency},
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := marshal(v)
	if err != nil {
		guard.WriteError(w, http.StatusInternalServerError, "", mcp.Errorf(mcp.KindInternal, "internal error"))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}
