package calls_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestMain(m *testing.M) { leak.Main(m) }

// open returns a Recorder over a new log, and a function that closes the log and returns its records
// about callers.
func open(t testing.TB, form audit.Form, required bool) (*calls.Recorder, func() []map[string]any) {
	t.Helper()
	keys, err := audit.KeysFrom("a secret of the test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l, err := audit.Open(audit.Options{Dir: dir, Keys: keys, Required: required})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	redact := func(raw []byte) []byte { return []byte(strings.ReplaceAll(string(raw), "hunter2", "[secret]")) }
	return calls.New(l, form, redact), func() (records []map[string]any) {
		l.Close()
		if err := audit.Each(dir, func(raw []byte) bool {
			var r map[string]any
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			switch r["kind"] {
			case "begin", "end", "refusal", "view":
				records = append(records, r)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return records
	}
}

// is reports the members of a record that are not as they are wanted; "" wants none.
func is(t *testing.T, name string, record map[string]any, want map[string]string) {
	t.Helper()
	for key, text := range want {
		got := ""
		if value, there := record[key]; there {
			got = fmt.Sprint(value)
		}
		if got != text {
			t.Errorf("%s: %s is %q, want %q", name, key, got, text)
		}
	}
}

// caller returns a context of a caller, and a request of it.
func caller(t testing.TB) (context.Context, *mcp.Request) {
	t.Helper()
	ctx := identity.With(t.Context(), &identity.Identity{Principal: "corp:u1", Issuer: "corp", Client: "web"})
	ctx = identity.WithRoute(ctx, identity.Route{Source: "10.0.0.1"})
	session := mcp.NewSession("s1", "corp:u1")
	t.Cleanup(session.Close)
	return ctx, &mcp.Request{ID: "1", Method: "tools/call", Session: session, Peer: mcp.NoPeer,
		Params: json.RawMessage(`{"name":"x","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`)}
}

// TestRecordsOfACall: who called, what, and with which outcome.
func TestRecordsOfACall(t *testing.T) {
	to, read := open(t, audit.FormFull, true)
	ctx, request := caller(t)
	about := calls.Call{Request: request, Server: "files", ToolID: "files:x", Args: []byte(`{"b":1,"a":"hunter2"}`), Decision: "allow", Rule: "policy.default"}
	first, err := to.Begin(ctx, &about)
	if err != nil {
		t.Fatal(err)
	}
	second, err := to.Begin(ctx, &calls.Call{Request: request, Method: "tasks/result", Server: "files", Handle: "task_1"})
	if err != nil {
		t.Fatal(err)
	}
	second.End("task", nil)
	first.End(calls.OK, []byte(`{"content":[]}`))
	to.Refused(ctx, &about, "permission_denied")
	to.Cached(ctx, &about, []byte(`{"content":[]}`))
	to.Viewed(ctx, &calls.Call{Request: request, Method: "tool_view"}, "art_1", []byte(`{"type":"head"}`), []byte("shown"))
	to.Viewed(ctx, &calls.Call{Request: request, Method: "tool_view"}, "art_2", []byte(`"`+strings.Repeat("x", 2000)+`"`), []byte("shown"))
	r := read()
	if len(r) != 8 {
		t.Fatalf("%d records: %v", len(r), r)
	}
	who := map[string]string{"principal": "corp:u1", "issuer": "corp", "client": "web", "ip": "10.0.0.1", "session": telemetry.SessionTag("s1"), "trace": "0af7651916cd43dd8448eb211c80319c"}
	for _, one := range r {
		is(t, fmt.Sprint(one["kind"]), one, who)
	}
	args := "map[a:hunter2 b:1]"
	is(t, "begin", r[0], map[string]string{"kind": "begin", "method": "tools/call", "server": "files", "tool_id": "files:x", "args": args, "decision": "allow", "rule": "policy.default", "outcome": "", "handle": "", "ms": ""})
	is(t, "begin of a task", r[1], map[string]string{"kind": "begin", "method": "tasks/result", "handle": "task_1", "args": ""})
	is(t, "end of a task", r[2], map[string]string{"kind": "end", "method": "tasks/result", "handle": "task_1", "outcome": "task", "result": ""})
	is(t, "end", r[3], map[string]string{"kind": "end", "outcome": "ok", "args": "", "decision": "", "rule": "", "tool_id": "files:x"})
	is(t, "refusal", r[4], map[string]string{"kind": "refusal", "outcome": "permission_denied", "args": args, "rule": "policy.default", "call": ""})
	is(t, "cached", r[5], map[string]string{"kind": "end", "outcome": "cached", "args": args, "call": ""})
	is(t, "view", r[6], map[string]string{"kind": "view", "handle": "art_1", "outcome": "ok", "selector": "map[type:head]"})
	is(t, "view with a long selector", r[7], map[string]string{"handle": "art_2", "selector": ""})
	if r[0]["call"] == nil || r[0]["call"] != r[3]["call"] || r[1]["call"] != r[2]["call"] || r[0]["call"] == r[1]["call"] {
		t.Errorf("calls: %v %v %v %v", r[0]["call"], r[1]["call"], r[2]["call"], r[3]["call"])
	}
	if digest := fmt.Sprint(r[3]["result"]); !strings.HasPrefix(digest, "hmac-sha256:") || !strings.HasSuffix(digest, ":14") || r[5]["result"] != r[3]["result"] {
		t.Errorf("results: %v and %v", r[3]["result"], r[5]["result"])
	}
}

// TestFormsOfArguments: no form but the fullest has what a caller wrote.
func TestFormsOfArguments(t *testing.T) {
	for form, want := range map[audit.Form]struct {
		args   string // how it begins
		result bool
	}{
		audit.FormNone: {"", false}, audit.FormHash: {"hmac-sha256:", true}, audit.FormRedacted: {"map[key:[secret]]", true}, audit.FormFull: {"map[key:hunter2]", true},
	} {
		to, read := open(t, form, false)
		ctx, request := caller(t)
		about := calls.Call{Request: request, Server: "files", Args: []byte(`{"key":"hunter2"}`)}
		begun, err := to.Begin(ctx, &about)
		if err != nil {
			t.Fatal(err)
		}
		begun.End(calls.OK, []byte(`{}`))
		to.Refused(ctx, &about, "rate_limited")
		to.Cached(ctx, &about, []byte(`{}`))
		for i, r := range read() {
			args := ""
			if r["args"] != nil {
				args = fmt.Sprint(r["args"])
			}
			ends := i == 1 // an end has no arguments
			if !ends && (!strings.HasPrefix(args, want.args) || want.args == "" && args != "") || ends && args != "" {
				t.Errorf("%s: %s has the arguments %q", form, r["kind"], args)
			}
			if r["kind"] == "end" && (r["result"] != nil) != want.result {
				t.Errorf("%s: result %v", form, r["result"])
			}
		}
	}
}

// TestSessionOfAnother: the principal of the session counts where the context does not tell it.
func TestSessionOfAnother(t *testing.T) {
	to, read := open(t, audit.FormNone, false)
	_, request := caller(t)
	to.Refused(t.Context(), &calls.Call{Request: request}, "rate_limited")
	to.Refused(t.Context(), &calls.Call{Method: "x"}, "rate_limited")
	r := read()
	is(t, "with a session", r[0], map[string]string{"principal": "corp:u1", "issuer": "", "method": "tools/call"})
	is(t, "without a request", r[1], map[string]string{"principal": identity.Local, "method": "x", "session": ""})
}

// TestBeginFails: a call must not go on without its record.
func TestBeginFails(t *testing.T) {
	to, read := open(t, audit.FormNone, true)
	ctx, request := caller(t)
	read() // closes the log
	if open, err := to.Begin(ctx, &calls.Call{Request: request}); open != nil {
		t.Error("a call is open")
	} else if kind, _ := mcp.KindOf(err); kind != mcp.KindAuditUnavailable {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := to.Begin(ended, &calls.Call{Request: request}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that has ended: %v", err)
	}
}

// TestNoLog: without a log, all calls go on.
func TestNoLog(t *testing.T) {
	to := calls.New(nil, audit.FormFull, nil)
	if to != nil || to.Log() != nil {
		t.Fatal("there is a Recorder")
	}
	ctx, request := caller(t)
	about := calls.Call{Request: request}
	begun, err := to.Begin(ctx, &about)
	if begun != nil || err != nil {
		t.Errorf("%v, %v", begun, err)
	}
	begun.End(calls.OK, nil)
	to.Refused(ctx, &about, "x")
	to.Cached(ctx, &about, nil)
	to.Viewed(ctx, &about, "art_1", nil, nil)
}

func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		err     error
		isError bool
		want    string
	}{
		{nil, false, "ok"},
		{nil, true, "tool_error"},
		{&jsonrpc.Error{Code: -32602, Message: "hunter2"}, false, "error -32602"},
		{fmt.Errorf("call: %w", &jsonrpc.Error{Code: 7}), true, "error 7"},
		{mcp.Errorf(mcp.KindUpstreamTimeout, "late"), false, "upstream_timeout"},
		{fmt.Errorf("call: %w", mcp.Errorf(mcp.KindPermissionDenied, "no")), false, "permission_denied"},
	} {
		if got := calls.Outcome(tt.err, tt.isError); got != tt.want {
			t.Errorf("%v, %v: %q, want %q", tt.err, tt.isError, got, tt.want)
		}
	}
}
