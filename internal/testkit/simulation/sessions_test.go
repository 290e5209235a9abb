package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/queue"
)

func (n *node) serveSessions() {
	forget := func(id string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.here, id)
	}
	n.sessions = n.Sessions(cluster.Endpoint{
		Path: "/", Next: n, MaxBody: 1 << 20, Memory: memory.NewPool(memory.Options{}), Forget: forget,
		ID: func(r *http.Request) string { return r.Header.Get("Session") },
		Owner: func(_, id string) (inc, key string, ok bool) {
			inc, _, ok = strings.Cut(id, "-")
			return inc, "s." + id, ok
		},
		Here: func(id string) bool { n.mu.Lock(); defer n.mu.Unlock(); return n.here[id] },
		ForgetAll: func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			clear(n.here)
		},
	})
}

// ServeHTTP is a session's handler: it makes a session anew that it does not have, and counts calls.
func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.here[r.Header.Get("Session")] = true
	n.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if name := rawjson.Text(rawjson.GetPath(body, "params", "name")); name != "" {
		n.w.ran(name)
	}
	n.w.pause(200 * time.Millisecond)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, rawjson.Get(body, "id"))
}

// ask makes a call in a session at a node and returns the status.
func (n *node) ask(session, name string, number int) (status int, answer string) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, number, name)
	ctx := identity.With(n.w.t.Context(), &identity.Identity{Principal: "ann"})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Session", session)
	w := httptest.NewRecorder()
	n.sessions.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// calls makes calls in a session at one node after another, and checks that each is answered in time.
func (w *world) calls(session string) {
	for number := 1; !w.over(); number++ {
		n := w.pick()
		began := time.Now()
		status, answer := n.ask(session, fmt.Sprint(session, " ", number), number)
		switch took := time.Since(began); {
		case n.isDead():
			w.saw("calls at a killed node")
		case took > 30*time.Second:
			w.wrong("a call at %s was answered after %v", n.name, took)
		case status != http.StatusOK && status != http.StatusBadGateway && status != http.StatusServiceUnavailable:
			w.wrong("a call at %s: %d %s", n.name, status, answer)
		default:
			w.saw(fmt.Sprint("calls ", status))
		}
		w.pause(3 * time.Second)
	}
}

// goOn checks that sessions go on at all nodes.
func (w *world) goOn(sessions []string) {
	for _, session := range sessions {
		for _, n := range w.all() {
			status, answer := 0, ""
			for try := range 10 {
				if status, answer = n.ask(session, fmt.Sprint("after ", session, n.name, try), try); status == http.StatusOK {
					break
				}
				time.Sleep(time.Second)
			}
			if status != http.StatusOK {
				w.wrong("a session does not go on at %s: %d %s", n.name, status, answer)
			}
		}
	}
}

// claims takes the strict claim again and again at a node, and checks that no other node has it.
func (w *world) claims(i int) {
	for !w.over() {
		n := w.all()[i]
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		c, err := n.Claim(ctx, "u.thing", true)
		cancel()
		if err != nil {
			w.pause(2 * time.Second)
			continue
		}
		w.mu.Lock()
		dead := n.isDead()
		if !dead {
			if w.strict != nil {
				w.wrong("%s has a strict claim while %s has it", n.name, w.strict.name)
			}
			w.strict = n
			w.held++
		}
		w.mu.Unlock()
		select {
		case <-c.Lost():
		case <-n.dead:
		case <-time.After(time.Duration(w.n(int(10 * time.Second)))):
		}
		w.mu.Lock()
		if w.strict == n {
			w.strict = nil
		}
		w.mu.Unlock()
		ctx, cancel = context.WithTimeout(context.Background(), 30*time.Second)
		_ = c.Release(ctx)
		cancel()
		w.pause(2 * time.Second)
	}
}

func (n *node) serveTasks() {
	var err error
	n.tasks, err = queue.New(queue.Options{
		Docs: n.docs, Group: "g",
		PlaceOptions: queue.PlaceOptions{Run: func(ctx context.Context, job *queue.Job) (json.RawMessage, error) {
			n.w.ran("task " + job.ID)
			select {
			case <-time.After(time.Duration(n.w.n(int(3 * time.Second)))):
			case <-ctx.Done():
			}
			return json.RawMessage("{}"), ctx.Err()
		}},
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
}

// submits adds tasks at one node after another.
func (w *world) submits() {
	for time.Now().Before(w.until) {
		w.pause(3 * time.Second)
		task, err := w.pick().tasks.Submit(queue.Spec{Owner: "ann", Name: "t"})
		if err == nil {
			w.mu.Lock()
			w.accepted = append(w.accepted, task.ID)
			w.mu.Unlock()
		}
	}
}

// ended checks that the tasks that were accepted have ended.
func (w *world) ended() {
	for _, id := range w.accepted {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
		task, err := w.all()[0].tasks.Wait(ctx, "ann", id)
		cancel()
		if err != nil || task.Ended.IsZero() {
			w.wrong("an accepted task has not ended: %s, %v", task.State, err)
		}
	}
}

// once checks that no call and no task has run twice.
func (w *world) once() {
	for id, runs := range w.runs {
		if runs > 1 {
			w.wrong("%s ran %d times", id, runs)
		}
	}
}
