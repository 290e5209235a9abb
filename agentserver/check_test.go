package agentserver

import (
	"strings"
	"testing"
)

// TestArgumentsAreCheckedWithinBounds: a pattern that is too expensive for the
// arguments ends the check, and the command does not run.
func TestArgumentsAreCheckedWithinBounds(t *testing.T) {
	a := newAgent(t, `
name: demo
tools:
  - name: match
    description: Matches
    command: sh
    args: [-c, "echo ran"]
    timeoutMs: 300
    inputSchema: {type: object, properties: {text: {type: string, pattern: "(?:(?:a?){99}){9}b$"}}}
  - name: patient
    description: Matches, however long the start of a command takes
    command: sh
    args: [-c, "echo ran"]
    inputSchema: {type: object, properties: {text: {type: string, pattern: "(?:(?:a?){99}){9}b$"}}}
`, Options{})
	if r := a.call("patient", `{"text":"aab"}`); !strings.Contains(string(r.body), "ran") {
		t.Fatalf("%s", r.body)
	}
	r := a.call("match", `{"text":"`+strings.Repeat("a", 900_000)+`"}`)
	if !strings.Contains(r.text("error", "message"), "could not be checked within 300ms") {
		t.Errorf("%.600s", r.body)
	}
}
