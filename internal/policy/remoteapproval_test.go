package policy

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/policy/approval"
)

// TestDecisionOfAnotherNode: another node reads the calls that wait here, and its decision ends the wait of one.
func TestDecisionOfAnotherNode(t *testing.T) {
	room := approval.New(approval.Options{Open: func() bool { return true }})
	route := NewRemoteApprovals(nil, room, slog.New(slog.DiscardHandler)).Route()
	ask := func(method, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		route.Serve(w, httptest.NewRequestWithContext(t.Context(), method, route.Path, strings.NewReader(body)), nil)
		return w
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answers := make(chan approval.Answer, 1)
	go func() {
		a, err := room.Ask(ctx, approval.Question{Principal: "ann"}, time.Minute, func(string, time.Duration) {})
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	var waiting []approval.Call
	for len(waiting) == 0 && ctx.Err() == nil {
		if err := json.Unmarshal(ask(http.MethodGet, "").Body.Bytes(), &waiting); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if w := ask(http.MethodPost, "no JSON"); w.Code != http.StatusBadRequest {
		t.Errorf("a body that cannot be read: %d", w.Code)
	}
	if w := ask(http.MethodPost, `{"id":"unknown","approved":true}`); w.Code != http.StatusNotFound {
		t.Errorf("an unknown call: %d", w.Code)
	}
	if w := ask(http.MethodPost, `{"id":"`+waiting[0].ID+`","approved":true,"reason":"fine"}`); w.Code != http.StatusOK {
		t.Errorf("a decision: %d %s", w.Code, w.Body)
	}
	if a := <-answers; !a.Approved || a.Reason != "fine" {
		t.Errorf("the answer is %+v", a)
	}
}
