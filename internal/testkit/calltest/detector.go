package calltest

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/policy/hook"
)

// Detector is a hook that refuses questions in which a text stands.
type Detector struct {
	*hook.Set
	Mu    sync.Mutex
	Asked []string
}

// NewDetector returns a hook that is asked about calls, results or both.
func NewDetector(t testing.TB, refuses string, call, result bool) *Detector {
	t.Helper()
	d := &Detector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		d.Mu.Lock()
		d.Asked = append(d.Asked, string(question))
		d.Mu.Unlock()
		answer := `{"action":"allow"}`
		if strings.Contains(string(question), refuses) {
			answer = `{"action":"deny","reason":"not today"}`
		}
		w.Header().Set("Connection", "close") // a connection that stays would hold up the time of synctest
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	d.Set = hook.New([]hook.Options{{Name: "guards.hooks.pii", OnCall: call, OnResult: result, URL: server.URL, Timeout: 20 * time.Second}},
		func(raw []byte) []byte { return raw }, slog.New(slog.DiscardHandler))
	t.Cleanup(d.Close)
	return d
}

// Questions returns what was asked since the last time.
func (d *Detector) Questions() []string {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	asked := d.Asked
	d.Asked = nil
	return asked
}
