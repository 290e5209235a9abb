package metatool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

// TestTakeBody: another node gets the body of a principal once, from any session of the principal, and the search for it
// does not look at the sessions of other principals.
func TestTakeBody(t *testing.T) {
	s := NewState()
	defer s.Close(t.Context())
	s.ShareBodies(&BodyNodes{Mark: func() string { return "aaaaaa" }})
	open := func(principal string) (*mcp.Session, *sessionState) {
		of := mcp.NewSession("", principal)
		st := newSessionState(of)
		st.of, st.bodies = s, s.bodies
		s.register(of, st)
		return of, st
	}
	for i := range 1000 {
		open(fmt.Sprint("p", i))
	}
	if n := len(s.bodied); n > 0 {
		t.Errorf("%d principals without bodies are looked at", n)
	}
	first, _ := open("ann")
	last, second := open("ann")
	shown, err := second.Bodies().OnToolResult(json.RawMessage(`{"content":[],"structuredContent":{"abstract":[{"_row_id":0}],"body":[{"_row_id":0,"text":"long"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	handle := regexp.MustCompile(`ddi://[A-Za-z0-9_-]+`).Find(shown)
	args := json.RawMessage(fmt.Sprintf(`{"resource_url":%q,"abstract_data":"[{\"_row_id\":0}]"}`, handle))
	for _, principal := range []string{"p1", "bob"} {
		if _, ok := s.TakeBody(principal, args); ok {
			t.Errorf("%s gets the body of ann", principal)
		}
	}
	if filled, ok := s.TakeBody("ann", args); !ok || !strings.Contains(string(filled), "long") {
		t.Errorf("no body: %s from %s", filled, shown)
	}
	if _, ok := s.TakeBody("ann", args); ok {
		t.Error("the body is there twice")
	}
	none := json.RawMessage(`{"resource_url":"ddi://aaaaaa-none"}`)
	if allocs := testing.AllocsPerRun(20, func() {
		if _, ok := s.TakeBody("bob", none); ok {
			t.Error("a principal without sessions has a body")
		}
	}); allocs > 10 {
		t.Errorf("%v allocations to find that a principal has no body", allocs)
	}
	first.Close()
	last.Close()
	if left := s.bodied["ann"]; left != nil {
		t.Errorf("%d sessions of ann are known after their end", len(left))
	}
}
