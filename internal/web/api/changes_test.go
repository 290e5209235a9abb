package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/mcp"
)

// TestCredentialChanges: the log gets the changes that commands make, all of a message or none. The
// error of the log is the answer.
func TestCredentialChanges(t *testing.T) {
	var got []audit.CredentialChange
	full := false
	a := New(Options{Key: worldKey, Changed: func(_ context.Context, c audit.CredentialChange) error {
		if full {
			return mcp.Errorf(mcp.KindAuditUnavailable, "the disk is full")
		}
		got = append(got, c)
		return nil
	}})
	t.Cleanup(a.Close)
	without := New(Options{Key: worldKey})
	t.Cleanup(without.Close)
	const good = `{"command":"weir login","kind":"sign-in","decision":"stored","server":"notes"}`
	for _, tt := range []struct {
		body   string
		status int
		holds  string
		told   int
	}{
		{`{}`, 200, `{"recorded":0}`, 0},
		{`{"changes":[` + good + `,` + good + `]}`, 200, `{"recorded":2}`, 2},
		{`{"changes":[` + good + `,{"command":"rm","kind":"sign-in","decision":"stored"}]}`, 400, "changes[1].command", 0},
		{`{"changes":[{"command":"weir login","kind":"begin","decision":"stored"}]}`, 400, "changes[0].kind", 0},
		{`{"changes":[{"command":"weir login","kind":"credential","decision":"approved"}]}`, 400, "changes[0].decision", 0},
		{`{"changes":[{"command":"weir login","principal":"ann"}]}`, 400, "unknown field", 0},
		{`{"changes":[` + strings.Repeat(good+",", 100) + good + `]}`, 400, "at most 100", 0},
	} {
		got = nil
		w := httptest.NewRecorder()
		a.ServeHTTP(w, request("POST", "audit/credentials", tt.body))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.holds) || len(got) != tt.told {
			t.Errorf("%.90s: %d %s with %d changes, want %d %s with %d", tt.body, w.Code, w.Body, len(got), tt.status, tt.holds, tt.told)
		}
	}
	full = true
	for want, one := range map[int]*API{503: a, 404: without} {
		w := httptest.NewRecorder()
		if one.ServeHTTP(w, request("POST", "audit/credentials", `{"changes":[`+good+`]}`)); w.Code != want {
			t.Errorf("%d %s, want %d", w.Code, w.Body, want)
		}
	}
}
