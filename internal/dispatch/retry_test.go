package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// flaky fails n times and then answers.
func flaky(n int, err error) calltest.Peer {
	return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		if n--; n >= 0 {
			return nil, err
		}
		return json.RawMessage(calltest.Text("done")), nil
	}
}

// waiting is an error that asks for time.
func waiting(k mcp.Kind, seconds int) *mcp.Error {
	e := mcp.Errorf(k, "busy")
	e.SetRetryAfter(time.Duration(seconds) * time.Second)
	return e
}

// A server that says when to come back is asked again then and not before, and the
// agent is told where that is too late for the gateway.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		took    time.Duration
		code    result.Code
		details string
	}{
		{"within the bound", waiting(mcp.KindUpstreamUnavailable, 30), 30 * time.Second, result.UpstreamUnavailable, `{"retry_after":30}`},
		{"sooner than the policy", waiting(mcp.KindUpstreamUnavailable, 1), 10 * time.Second, result.UpstreamUnavailable, `{"retry_after":1}`},
		{"beyond the bound", waiting(mcp.KindUpstreamUnavailable, 61), 0, result.UpstreamUnavailable, `{"retry_after":61}`},
		{"of a rate", waiting(mcp.KindRateLimited, 7), 0, result.RateLimited, `{"retry_after":7}`},
		{"answered", &jsonrpc.Error{Code: -32000, Message: "too many requests", Data: json.RawMessage(`{"retry_after":2.5}`)}, 0, result.RateLimited, `{"retry_after":3}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := metatooltest.New(t, metatool.Options{Retry: dispatch.RetryPolicy{MaxAttempts: 2, BaseDelay: 10 * time.Second, MaxDelay: time.Minute}})
			h.Add("files", flaky(9, tt.err), calltest.ReadTool)
			began := time.Now()
			s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"a"}}`)
			if took := time.Since(began); took != tt.took {
				t.Errorf("%s: took %s, want %s", tt.name, took, tt.took)
			}
			var told struct {
				Error   result.Code     `json:"error"`
				Details json.RawMessage `json:"details"`
			}
			if err := json.Unmarshal([]byte(s.Content[0].Text), &told); err != nil || told.Error != tt.code || string(told.Details) != tt.details {
				t.Errorf("%s: %s, want %s with %s", tt.name, s.Content[0].Text, tt.code, tt.details)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	gone := mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")
	late := mcp.Errorf(mcp.KindUpstreamTimeout, "late")
	for _, tt := range []struct {
		name     string
		policy   dispatch.RetryPolicy
		peer     func() calltest.Peer
		attempts int
		ok       bool
	}{
		{"one attempt by default", dispatch.RetryPolicy{}, func() calltest.Peer { return flaky(1, gone) }, 1, false},
		{"unavailable", dispatch.RetryPolicy{MaxAttempts: 3}, func() calltest.Peer { return flaky(2, gone) }, 3, true},
		{"timeout", dispatch.RetryPolicy{MaxAttempts: 3}, func() calltest.Peer { return flaky(1, late) }, 2, true},
		{"a broken connection", dispatch.RetryPolicy{MaxAttempts: 2}, func() calltest.Peer { return flaky(1, io.ErrUnexpectedEOF) }, 2, true},
		{"exhausted", dispatch.RetryPolicy{MaxAttempts: 3}, func() calltest.Peer { return flaky(9, gone) }, 3, false},
		{"not a retryable code", dispatch.RetryPolicy{MaxAttempts: 3}, func() calltest.Peer { return flaky(1, mcp.Errorf(mcp.KindUnauthorized, "no")) }, 1, false},
		{"only the codes that are named", dispatch.RetryPolicy{MaxAttempts: 3, Codes: []result.Code{result.UpstreamTimeout}}, func() calltest.Peer { return flaky(1, gone) }, 1, false},
		{"a code that is named", dispatch.RetryPolicy{MaxAttempts: 3, Codes: []result.Code{result.RateLimited}}, func() calltest.Peer { return flaky(1, mcp.Errorf(mcp.KindRateLimited, "slow down")) }, 2, true},
		{"what the server answered", dispatch.RetryPolicy{MaxAttempts: 3}, func() calltest.Peer { return flaky(1, &jsonrpc.Error{Code: -32000, Message: "service unavailable"}) }, 1, false},
		{"what another attempt would not change", dispatch.RetryPolicy{MaxAttempts: 3, Codes: []result.Code{result.UpstreamError, result.UpstreamUnavailable}},
			func() calltest.Peer {
				return flaky(1, &mcp.Error{Kind: mcp.KindUpstreamProtocol, Message: "202", Err: mcp.ErrFinal})
			}, 1, false},
		{"a wait within the bound", dispatch.RetryPolicy{MaxAttempts: 3, MaxDelay: time.Minute}, func() calltest.Peer { return flaky(1, waiting(mcp.KindUpstreamUnavailable, 30)) }, 2, true},
		{"a wait beyond the bound", dispatch.RetryPolicy{MaxAttempts: 3, MaxDelay: time.Minute}, func() calltest.Peer { return flaky(1, waiting(mcp.KindUpstreamUnavailable, 90)) }, 1, false},
		{"a tool's own error", dispatch.RetryPolicy{MaxAttempts: 3}, func() calltest.Peer {
			return calltest.Say(`{"content":[{"type":"text","text":"timed out"}],"isError":true}`)
		}, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var events []metatool.Event
			h := metatooltest.New(t, metatool.Options{Retry: tt.policy, OnEvent: func(e metatool.Event) { events = append(events, e) }})
			h.Add("files", tt.peer(), calltest.ReadTool)
			s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"a"}}`)
			if got := len(h.Called()); got != tt.attempts || s.IsError == tt.ok {
				t.Errorf("%s: %d attempts, %+v", tt.name, got, s)
			}
			if len(events) != 1 || events[0].Attempts != tt.attempts {
				t.Errorf("%s: events %+v", tt.name, events)
			}
		})
	}
}

func TestRetryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.New(t, metatool.Options{Retry: dispatch.RetryPolicy{MaxAttempts: 4, BaseDelay: time.Second, MaxDelay: 3 * time.Second}})
		h.Add("files", flaky(3, mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")), calltest.ReadTool)
		start := time.Now()
		s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"a"}}`)
		if took := time.Since(start); took != 6*time.Second || s.IsError {
			t.Errorf("%s, %+v", took, s)
		}
	})
}

// An agent that goes away is not waited for.
func TestRetryEndsWithTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		d := dispatch.RetryPolicy{MaxAttempts: 5, BaseDelay: time.Hour, MaxDelay: time.Hour}.Sender(dispatch.Sender{Send: func(context.Context, *dispatch.Call) (json.RawMessage, error) {
			calls++
			return nil, &result.Error{Code: result.UpstreamTimeout, Message: "late"}
		}})
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := d.Send(ctx, &dispatch.Call{})
		if time.Since(start) != time.Second || calls != 1 || !errors.Is(err, &result.Error{Code: result.UpstreamTimeout}) {
			t.Errorf("%s, %d calls, %v", time.Since(start), calls, err)
		}
	})
}
