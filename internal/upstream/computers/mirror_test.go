package computers

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp/agent"
)

// TestMirror: a server of another gateway's Fleet has its path here, too, as long as it is mirrored. A mirror is
// not mirrored again.
func TestMirror(t *testing.T) {
	each := upstream.New(upstream.Options{})
	defer func() { _ = each.Close(context.Background()) }()
	f, err := New(Options{Agent: agent.Options{URL: "http://127.0.0.1:1", Office: "o"}, Each: each})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	open := func(string) upstream.Open {
		return func(context.Context) (mcp.Stream, error) { return nil, errors.New("it is away") }
	}
	resolves := func(path, want string) {
		t.Helper()
		if name, whole, ok := f.Resolve(path); name != want || whole || ok != (want != "") {
			t.Errorf("%s: %q %v %v, want %q", path, name, whole, ok, want)
		}
	}
	f.Mirror([]Server{{"desk", "desk-excel", "desk.excel"}}, open)
	resolves("desk.excel", "desk-excel")
	if !each.Attached("desk-excel") || len(f.Servers()) != 0 {
		t.Errorf("attached: %v; mirrored again: %v", each.Attached("desk-excel"), f.Servers())
	}
	f.Mirror([]Server{{"desk", "desk-word", "desk.word"}}, open)
	resolves("desk.excel", "")
	resolves("desk.word", "desk-word")
	f.Mirror(nil, nil)
	resolves("desk.word", "")
	if each.Attached("desk-word") {
		t.Error("it is attached although no gateway has it")
	}
}
