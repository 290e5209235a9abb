package result

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
)

// TestSelectHolds: what a view of any type holds is counted before it is made, and no more than the
// stated factor of the result, for the results and selectors that multiply most.
func TestSelectHolds(t *testing.T) {
	const size = 1 << 18
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	nested := func(depth int, inside string) string {
		return strings.Repeat("[", depth) + inside + strings.Repeat("]", depth)
	}
	results := map[string]string{
		"lines":   fill("\n"),
		"returns": fill("a\r"),
		"bytes":   fill("a\xff"),
		"numbers": "[" + fill("1,") + "1]",
		"keys":    "{" + numbered(`"#":0`, size/11, ",") + "}",
		"empty":   "[" + fill("{},") + "{}]",
		"ndjson":  fill("{}\n"),
		"deep":    `{"a":` + nested(900, fill("1,")+"1") + "}",
		"string":  nested(900, `"`+fill(`\n`)+`"`),
		"rows":    "[" + numbered(`{"id":#,"t":"x","u":[1,2]}`, size/30, ",") + "]",
		"csv":     "id," + numbered("name_of_the_column_#", 400, ",") + "\n" + fill(strings.Repeat(",", 400)+"\n"),
		"heads":   fill("# " + strings.Repeat("A", 1<<17) + "\n"),
	}
	selectors := []string{
		`{"type":"head"}`, `{"type":"head","start":-9,"chars":100000000}`, `{"type":"lines","start":-3}`, `{"type":"tail"}`,
		`{"type":"headings"}`, `{"type":"section","heading":"a"}`,
		`{"type":"json_keys","keys":["a"]}`, `{"type":"json_keys"}`,
		`{"type":"rows"}`, `{"type":"rows","start":-5}`, `{"type":"rows","path":"$..*"}`,
		`{"type":"json_path","path":"$"}`, `{"type":"json_path","path":"$..*"}`, `{"type":"json_path","path":"$[-1]"}`,
		`{"type":"json_path","path":"$[::-1]"}`, `{"type":"json_path","path":"$[*,*,*,*,*,*,*,*]"}`, `{"type":"json_path","path":"$..[?@.id>5]"}`,
		`{"type":"search","pattern":"x|1|a"}`, `{"type":"search","pattern":"nowhere"}`,
		`{"type":"table"}`, `{"type":"table","path":"$..*"}`, `{"type":"table","order_by":["-_row_id"]}`,
		`{"type":"table","group_by":["id"],"aggregate":[{"op":"max","column":"t","as":"a"},{"op":"count_distinct","column":"t","as":"b"}],"limit":100000}`,
	}
	for name, data := range results {
		for _, selector := range selectors {
			var asked int64
			var err error
			grew := leak.Peak(func() {
				_, err = selectBytes(t.Context(), artifact.Artifact{Handle: "art_x", MediaType: "text/plain"}, []byte(data), json.RawMessage(selector),
					ViewOptions{MaxWork: 8_000_000, Room: func(n int64) error { asked = n; return nil }})
			}) - int64(len(data)) // of []byte(data)
			if most := int64(maxViewFactor*len(data) + maxViewBytes); grew > 2*min(asked, most)+24<<20 || asked > most {
				t.Errorf("%s of %d KB, %s: %d KB on the heap, %d KB asked for, %v", name, len(data)>>10, selector, grew>>10, asked>>10, err)
			}
		}
	}
}

// TestSelectTakesRoom: a view takes what it holds from the account of memory, and where there is no
// room it says so, to be made again later.
func TestSelectTakesRoom(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 4 << 20})
	defer pool.Close()
	data := "[" + numbered(`{"id":#,"t":"x"}`, 40_000, ",") + "]"
	view := func() error {
		hold := pool.Hold("principal ", "ann")
		defer hold.Release()
		_, err := selectBytes(t.Context(), artifact.Artifact{Handle: "art_x"}, []byte(data), json.RawMessage(`{"type":"table","order_by":"-id"}`), ViewOptions{Room: Room(&hold)})
		return err
	}
	var e *Error
	if err := view(); !errors.As(err, &e) || e.Code != RateLimited || !strings.Contains(e.Message, "limits.memory") {
		t.Fatalf("without room: %v", err)
	}
	if kind, _ := mcp.KindOf(e); kind != mcp.KindOverloaded {
		t.Errorf("of kind %v", kind)
	}
	if used := pool.Usage().Memory; used != 0 {
		t.Errorf("%d bytes are held after the view", used)
	}
	data = data[:len(data)/8]
	data = data[:strings.LastIndex(data, ",{")] + "]"
	if err := view(); err != nil {
		t.Errorf("with room: %v", err)
	}
}
