package passthrough_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// ends is an Auditor that notes begins and how they end.
type ends struct {
	mu  sync.Mutex // guards got
	got []string
}

func (*ends) Enabled() bool { return true }

func (a *ends) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = append(a.got, fmt.Sprintf(format, args...))
}

func (a *ends) Begin(_ context.Context, _ string, r *mcp.Request) (passthrough.Recorded, error) {
	a.note("begin %s", r.Method)
	return endOf{a}, nil
}

// endOf is a begin of an ends.
type endOf struct{ to *ends }

// Ended implements passthrough.Recorded.
func (r endOf) Ended(result json.RawMessage, err error) {
	kind, _ := mcp.KindOf(err)
	switch {
	case err == nil:
		r.to.note("ok")
	case errors.Is(err, context.Canceled):
		r.to.note("canceled")
	default:
		r.to.note("%s", kind)
	}
}

// Pieces implements passthrough.Recorded.
func (endOf) Pieces() io.Writer { return nil }

// Passed implements passthrough.Recorded.
func (r endOf) Passed() { r.to.note("ok") }

// Unread implements passthrough.Recorded.
func (r endOf) Unread() { r.to.note("unread") }

// sessions is an Auditor that notes the ids of sessions.
type sessions struct {
	ends
	ids []string
}

func (a *sessions) Begin(_ context.Context, _ string, r *mcp.Request) (passthrough.Recorded, error) {
	a.ids = append(a.ids, r.Session.ID()+" of "+r.Session.Principal())
	return endOf{&a.ends}, nil
}

// TestRecordNamesNoSession: a request without a session is recorded without one, not with a new id.
func TestRecordNamesNoSession(t *testing.T) {
	up := &refusing{ended: ended{fixed: fixed{target: passthrough.Target{
		URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"}, Process: true, Version: mcp.V20251125,
	}}, comesBack: true}}
	a := &sessions{}
	rt := passthrough.New(passthrough.Options{
		Find: func(string) (passthrough.Upstream, bool) { return up, true }, Names: func() []string { return nil }, Transport: up, Audit: a,
	})
	rt.ServeHTTP(httptest.NewRecorder(), postOf(t, initRequest))
	if want := []string{" of "}; !slices.Equal(a.ids, want) {
		t.Errorf("recorded sessions %q, want %q", a.ids, want)
	}
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// refusing is an upstream whose program has just ended and, if it does not start again, cannot be
// held a second time.
type refusing struct {
	ended
	holds int
}

func (u *refusing) Hold(ctx context.Context, stream bool) (func(lost error), error) {
	if u.holds++; u.holds == 2 && !u.comesBack {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "it does not start")
	}
	return u.ended.Hold(ctx, stream)
}

// TestBeginHasEnd: a request has one begin and one end, however its second attempt fares.
func TestBeginHasEnd(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		up := &refusing{ended: ended{fixed: fixed{target: passthrough.Target{
			URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"}, Process: true, Version: mcp.V20251125,
		}}, comesBack: comesBack}}
		a := &ends{}
		rt := passthrough.New(passthrough.Options{
			Find: func(string) (passthrough.Upstream, bool) { return up, true }, Names: func() []string { return nil }, Transport: up, Audit: a,
		})
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, postOf(t, initRequest))
		want := []string{"begin initialize", "ok"}
		if !comesBack {
			want[1] = mcp.KindUpstreamUnavailable.String()
		}
		if !slices.Equal(a.got, want) {
			t.Errorf("comes back %t: %d, recorded %q, want %q", comesBack, w.Code, a.got, want)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// postOf returns a message of an agent.
func postOf(t *testing.T, message string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, mcpPath, strings.NewReader(message))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

// broken is a ResponseWriter whose agent has gone, which its request does not know yet.
type broken struct {
	*httptest.ResponseRecorder
	writes int // that still succeed
}

func (w *broken) Write(p []byte) (int, error) {
	if w.writes--; w.writes < 0 {
		return 0, io.ErrClosedPipe
	}
	return w.ResponseRecorder.Write(p)
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAgentGoneIsRecorded: a response that cannot be written is not the upstream's fault. Half an
// answer of an upstream is.
func TestAgentGoneIsRecorded(t *testing.T) {
	half := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("y", 512<<10)
	for _, c := range []struct {
		name, kind, body string
		writes           int
		want             string
	}{
		{"stream", "text/event-stream", ": hello\n\n", 0, "canceled"},
		{"long", "application/json", half, 0, "canceled"},
		{"rest of a long one", "application/json", half, 1, "canceled"},
		{"agent there", "text/event-stream", ": hello\n\n", 99, mcp.KindUpstreamUnavailable.String()},
	} {
		up := &fixed{target: passthrough.Target{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"}, Version: mcp.V20251125}}
		a := &ends{}
		rt := passthrough.New(passthrough.Options{
			Find: func(string) (passthrough.Upstream, bool) { return up, true }, Names: func() []string { return nil }, Audit: a,
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, r.Body)
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.kind}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(c.body))}, nil
			}),
		})
		rt.ServeHTTP(&broken{httptest.NewRecorder(), c.writes}, postOf(t, initRequest))
		if want := []string{"begin initialize", c.want}; !slices.Equal(a.got, want) {
			t.Errorf("%s: recorded %q, want %q", c.name, a.got, want)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
