package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

// A result in a file ends with its request: what is kept of it (artifacts, rows, the
// cache, counts of tokens, equal calls at the same time) is read here when the file
// is not mapped any more, and to read the mapping would end the test's process.
func TestNothingOutlivesItsFile(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 64 << 20, SpillAt: 128 << 10, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	inFile := func(result string) calltest.Peer {
		return func(ctx context.Context, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
			b := pool.Account("large").NewBuffer(ctx, 32<<20)
			if err := b.Fill(strings.NewReader(result), -1); err != nil {
				return nil, err
			}
			block, err := b.Block()
			if err != nil {
				return nil, err
			}
			data, err := block.Open(ctx)
			if err != nil {
				return nil, err
			}
			return block.Deliver(ctx, data), nil
		}
	}
	var rows strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&rows, `%c{"name":"n%d","text":"something of row %d: a fact"}`, "[,"[min(i, 1)], i, i)
	}
	rows.WriteByte(']')
	const tool = `{"name":"large","description":"d","annotations":{"readOnlyHint":true}}`
	for name, raw := range map[string]string{
		"text":       calltest.Text("fact: one\n\n" + strings.Repeat("a line\n", 100_000)),
		"no escapes": `{"content":[{"type":"text","text":"fact: one` + strings.Repeat(" and more", 100_000) + `"}]}`,
		"table":      calltest.Text(rows.String()),
		"structured": `{"content":[],"structuredContent":` + rows.String() + `}`,
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, passes: %t", name, whole), func(t *testing.T) {
				opts := Options{Firewall: result.Firewall{CountTokens: token.Count}, Cache: dispatch.CacheOptions{ReadOnly: true}}
				if whole {
					opts.Firewall.ThresholdChars = 1 << 30
				}
				h := newHarness(t, opts)
				h.Add("y", inFile(raw), tool)
				call := func(more string) (answer string) {
					ctx, scope := memory.WithScope(t.Context())
					defer scope.End()
					params := `{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "y", "large") + `","args":{}` + more + `}}`
					out, err := h.g.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(params), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer})
					if err != nil {
						t.Fatal(err)
					}
					return string(out)
				}
				first := call("")
				if u := pool.Usage(); u.Disk != 0 || u.Memory != 0 {
					t.Errorf("held is %+v", u)
				}
				again := call("") // of the cache
				if a, b := rawjson.Get([]byte(first), "content"), rawjson.Get([]byte(again), "content"); string(a) != string(b) || len(h.Called()) != 1 {
					t.Errorf("the cache has another answer, after %d calls", len(h.Called()))
				}
				if _, handle, held := strings.Cut(first, "Held back as "); held {
					handle, _, _ = strings.Cut(handle, ".")
					seen := h.Tool(t, ToolView, `{"handle":"`+handle+`","selector":{"type":"head","chars":200}}`)
					if text := seen.Content[0].Text; !strings.Contains(text, "fact") {
						t.Errorf("what is kept is another: %.200s", text)
					}
				} else if !whole {
					t.Errorf("it is not held back: %.300s", first)
				}
				call(`,"abstract_domains":"name","mode":"sync"`)
				if u := h.g.state.Stats("ann").Total; u.Estimated == 0 || u.Uncounted != 0 {
					t.Errorf("%+v", u)
				}
				h.g.state.Close(context.Background()) // waits until all is counted that is
			})
		}
	}
}
