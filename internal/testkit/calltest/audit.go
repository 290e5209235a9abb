package calltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
)

// NewAudit opens a log in a folder of its own.
func NewAudit(t testing.TB, form audit.Form, required bool) (*audit.Log, *calls.Recorder, string) {
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
	return l, calls.New(l, form, func(b []byte) []byte { return b }), dir
}

// Recorded closes a log and returns its records about callers, each as a line of some members.
func Recorded(t *testing.T, l *audit.Log, dir string) (lines []string) {
	t.Helper()
	l.Close()
	if err := audit.Each(dir, func(raw []byte) bool {
		var r struct {
			Kind, Method, Server, Decision, Outcome, Handle, Result string
			ToolID                                                  string `json:"tool_id"`
			Args, Selector                                          json.RawMessage
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		switch audit.Kind(r.Kind) {
		case audit.Begin, audit.End, audit.Refusal, audit.View:
			result := ""
			if r.Result != "" {
				result = "digest"
			}
			lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(r.Kind, " ", r.Method, " ", r.Server, " ", r.Decision, " ", r.Outcome, " ", string(r.Args), " ", string(r.Selector), " ", result)), " "))
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}
