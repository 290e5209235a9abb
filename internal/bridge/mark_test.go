package bridge

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

// TestMarks: the state of a program comes back to it as it was, at its own process alone, and states of other
// clusters and servers pass.
func TestMarks(t *testing.T) {
	inc := "aaaaaa"
	nodes := &Nodes{Inc: func() string { return inc }, Keys: [][]byte{[]byte("key")}}
	here := NewMarks(nodes)
	there := NewMarks(&Nodes{Inc: func() string { return "bbbbbb" }, Keys: [][]byte{[]byte("key")}})
	rolled := NewMarks(&Nodes{Inc: func() string { return "eeeeee" }, Keys: [][]byte{[]byte("next key"), []byte("key")}})
	foreign := NewMarks(&Nodes{Inc: func() string { return "cccccc" }, Keys: [][]byte{[]byte("another key")}})
	const asks = `{"resultType":"input_required","inputRequests":{},"requestState":"a\"b.c","x":1.0}`
	out := string(here.Out([]byte(asks)))
	if !strings.Contains(out, `"requestState":"weir3.aaaaaa-`) || !strings.Contains(out, `"x":1.0`) {
		t.Fatal(out)
	}
	state := out[strings.Index(out, `"requestState":`):strings.Index(out, `,"x"`)]
	if got := StateNode(strings.Trim(strings.TrimPrefix(state, `"requestState":`), `"`)); got != "aaaaaa" {
		t.Errorf("the state names %q", got)
	}
	params := []byte(`{"name":"t",` + state + `}`)
	back := func(m *Marks) string {
		t.Helper()
		got, err := m.In(params)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if got := back(here); got != `{"name":"t","requestState":"a\"b.c"}` {
		t.Error(got)
	}
	if got := back(foreign); got != string(params) {
		t.Errorf("the state of another cluster: %s", got)
	}
	for _, m := range []*Marks{there, rolled} {
		if _, err := m.In(params); err == nil {
			t.Error("another node takes the state of a program that it does not have")
		} else if kind, _ := mcp.KindOf(err); kind != mcp.KindInvalidParams {
			t.Error(err)
		}
	}
	inc = "dddddd" // the node was fenced, the program runs on
	if got := back(here); got != `{"name":"t","requestState":"a\"b.c"}` {
		t.Errorf("after another INC: %s", got)
	}
	for _, same := range []string{`{"content":[]}`, `{"resultType":"input_required","requestState":""}`, `{"resultType":"input_required"}`} {
		if got := string(here.Out([]byte(same))); got != same {
			t.Errorf("%s: %s", same, got)
		}
	}
	if got, err := here.In([]byte(`{"requestState":"weir2.x"}`)); err != nil || string(got) != `{"requestState":"weir2.x"}` {
		t.Errorf("another state: %s, %v", got, err)
	}
}
