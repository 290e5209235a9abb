package metatool

import (
	"runtime"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
)

// The text of a result that was received into a file is unquoted into a file as well: the heap gets
// a small part of it.
func TestTextInFile(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	ctx, scope := memory.WithScope(t.Context())
	defer scope.End()
	want := strings.Repeat("a line with \"quotes\"\n", 1_000_000)
	b := pool.Account("large").NewBuffer(ctx, 1<<30)
	if _, err := b.Write(rawjson.Quote(want)); err != nil {
		t.Fatal(err)
	}
	block, err := b.Block()
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := block.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	quoted = block.Deliver(ctx, quoted)
	if !scope.Ends(quoted) {
		t.Fatal("the message is not in a file")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := textInFile(ctx, scope, quoted)
	runtime.ReadMemStats(&after)
	if err != nil || string(text) != want {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; !scope.Ends(text) || allocated > uint64(len(want)/4) {
		t.Errorf("%d bytes of text took %d of the heap", len(want), allocated)
	}
	// A half of a surrogate pair is replaced, which only the copy on the heap does.
	if text, err = textInFile(ctx, scope, []byte(`"\ud83d and \n"`)); err != nil || string(text) != "\uFFFD and \n" {
		t.Errorf("%q, %v", text, err)
	}
	scope.End()
	if u := pool.Usage(); u.Memory != 0 || u.Disk != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}
