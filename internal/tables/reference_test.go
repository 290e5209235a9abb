package tables

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

// However deep a reference stands, or a text that looks like one, its arguments
// are gone through once.
func TestDeepReferencesCostOnce(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	around := Surroundings{Store: store}
	kept, err := store.Put(t.Context(), "ann", "application/json", "rows", []byte(`[{"event":"Wind"}]`))
	if err != nil {
		t.Fatal(err)
	}
	const depth = 60
	entry := &catalog.Entry{ID: "math:sum", InputSchema: json.RawMessage(`{"type":"object","properties":{"nested":{"type":"array"}}}`)}
	handle := kept.Handle
	for name, inner := range map[string]string{
		"text":      `"$table ` + strings.Repeat("x", 1<<20) + `"`,
		"reference": `"` + strings.Repeat("x", 1<<20) + `",{"$table":"` + handle + `"}`,
	} {
		args := []byte(`{"nested":` + strings.Repeat("[", depth) + inner + strings.Repeat("]", depth) + `}`)
		r := &resolver{tables: New(around, Options{}), ctx: t.Context(), call: &dispatch.Call{Entry: entry, Request: &mcp.Request{Session: mcp.NewSession("", "ann")}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := r.resolve(args)
		runtime.ReadMemStats(&after)
		r.close(false)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "reference" && !strings.Contains(string(out), `[{"event":"Wind"}]`) {
			t.Errorf("%s: the rows are not there", name)
		}
		if made, most := after.TotalAlloc-before.TotalAlloc, uint64(4*len(args)); made > most {
			t.Errorf("%s: %d bytes were allocated for arguments of %d", name, made, len(args))
		}
	}
}
