package metatool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// What is read by the methods of MCP is told to operators as what is read by the
// verbs, and errors tell no secrets there either.
func TestNativeCallsAreEvents(t *testing.T) {
	var events []Event
	h, up := library(t, Options{Redactor: result.NewRedactor([]string{calltest.Secret}), OnEvent: func(e Event) { events = append(events, e) },
		RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ResourceRead: {PerSession: 2}}}})
	read := func() error {
		_, err := h.Ask(t, "resources/read", `{"uri":"file:///docs/readme.md"}`)
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	for _, cause := range []error{
		&jsonrpc.Error{Code: -32000, Message: "cannot log in with " + calltest.Secret, Data: json.RawMessage(`{"dsn":"x://ann:passw0rd@h","n":12345678901234567890}`)},
		mcp.Errorf(mcp.KindUpstreamUnavailable, "gone, with %s", calltest.Secret),
	} {
		up.Mu.Lock()
		up.Err = cause
		up.Mu.Unlock()
		_, err := h.Ask(t, "prompts/get", `{"name":"summarize_pr","arguments":{"repo":"r"}}`)
		wire := mcp.WireError(err, mcp.V20251125)
		if text := wire.Message + string(wire.Data); strings.Contains(text, calltest.Secret) || strings.Contains(text, "passw0rd") || !strings.Contains(text, redact.Mark) {
			t.Errorf("%v became %s", cause, text)
		}
		if _, err = h.Ask(t, "completion/complete", `{"ref":{"type":"ref/prompt","name":"summarize_pr"},"argument":{"name":"repo","value":""}}`); err == nil || strings.Contains(err.Error(), calltest.Secret) {
			t.Errorf("completion: %v", err)
		}
	}
	if err := read(); err == nil {
		t.Error("the server is gone")
	}
	if kind, _ := mcp.KindOf(read()); kind != mcp.KindRateLimited {
		t.Errorf("over the quota: %v", kind)
	}
	var got []string
	for _, e := range events {
		if e.Session == "" || e.Principal != "ann" || e.Upstream != "docs" || e.ToolID == "" || e.Counted {
			t.Errorf("%+v", e)
		}
		got = append(got, fmt.Sprint(e.Name, " ", e.Attempts, e.Code, e.Scope))
	}
	want := []string{"resource_read.completed 1", "prompt_get.failed 1UPSTREAM_ERROR", "prompt_get.failed 1UPSTREAM_UNAVAILABLE", "resource_read.failed 1UPSTREAM_UNAVAILABLE", "resource_read.failed 0RATE_LIMITEDresource_read/session"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Secrets are kept from both parts of an error, whoever has made it.
func TestErrorsOfTheProtocolAreRedacted(t *testing.T) {
	h := newHarness(t, Options{Redactor: result.NewRedactor([]string{"s3cr3t-value"})})
	for _, err := range []error{
		&mcp.Error{Kind: mcp.KindInternal, Message: "plain", Data: json.RawMessage(`{"at":"s3cr3t-value"}`)}, &mcp.Error{Kind: mcp.KindInternal, Message: "with s3cr3t-value"},
		&jsonrpc.Error{Code: -1, Message: "plain", Data: json.RawMessage(`{"at":"s3cr3t-value"}`)}, &jsonrpc.Error{Code: -1, Message: "with s3cr3t-value"},
	} {
		clean := h.g.caller.redactError(err)
		var own *mcp.Error
		var answered *jsonrpc.Error
		told := ""
		switch {
		case errors.As(clean, &own):
			told = own.Message + string(own.Data)
		case errors.As(clean, &answered):
			told = answered.Message + string(answered.Data)
		}
		if strings.Contains(told, "s3cr3t") || !strings.Contains(told, "[redacted]") {
			t.Errorf("%v: %s", err, told)
		}
	}
	same := &mcp.Error{Kind: mcp.KindInternal, Message: "nothing in it"}
	if h.g.caller.redactError(same) != error(same) {
		t.Error("an error without secrets is another one")
	}
}
