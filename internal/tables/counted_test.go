package tables_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// The index of rows that are kept as the JSON that a server wrote is counted as well: where there is no room for it,
// nothing is called.
func TestIndexOfReferencesIsCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 1 << 20, Wait: 10 * time.Millisecond})
	h := newServed(t, metatool.Options{Memory: pool})
	h.Add("up", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(calltest.Text("done")), nil
	}, `{"name":"take","description":"Take rows.","inputSchema":{"type":"object"}}`)
	handle := keep(t, h.Harness, `[`+strings.Repeat(`{"a":1},`, 200_000)+`{"a":1}]`)
	call := fmt.Sprintf(`{"tool_id":%q,"args":{"rows":{"$table":%q,"row_ids":[1]}}}`, h.ID(t, "up", "take"), handle)
	if s := h.Tool(t, metatool.ToolExecute, call); !s.IsError || !strings.Contains(fmt.Sprint(s.Content), "limits.memory") {
		t.Errorf("%.300s", fmt.Sprint(s.Content))
	}
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("after the call: %+v", u)
	}
}

// What calls make of $table references is taken from the account of their principal before it is made, and is
// given back when they end. Where there is no room, nothing is called.
func TestTableReferencesAreCounted(t *testing.T) {
	const limit, rowsOf = 16 << 20, 100_000
	pool := memory.NewPool(memory.Options{Limit: limit, Wait: 10 * time.Millisecond})
	h := newServed(t, metatool.Options{Memory: pool})
	arrived, let := make(chan int, 100), make(chan bool)
	h.Add("slow", func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		arrived <- len(params)
		<-let
		return json.RawMessage(calltest.Text("done")), nil
	}, `{"name":"take","description":"Take rows.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`)
	handle := keep(t, h.Harness, `[{"text":"`+strings.Repeat(`a\"`, rowsOf/3)+`"}]`)
	ref := `{"$table":"` + handle + `"}`
	id := h.ID(t, "slow", "take")
	call := func(args string) (string, bool) {
		s := h.Tool(t, metatool.ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":%s}`, id, args))
		return fmt.Sprint(s.Content), s.IsError
	}
	rows := `[` + ref + strings.Repeat(","+ref, 11) + `]`

	var all sync.WaitGroup
	results := make(chan string, 16)
	begin := func() {
		all.Go(func() {
			text, failed := call(`{"rows":` + rows + `,"text":` + ref + `}`)
			if failed != strings.Contains(text, "RATE_LIMITED") {
				t.Errorf("it failed: %t, %.300s", failed, text)
			}
			results <- text
		})
	}
	begin()
	sent := <-arrived // it has its room, so most of the others find none
	for range cap(results) - 1 {
		begin()
	}
	for range cap(results) - len(arrived) - 1 {
		select {
		case text := <-results:
			if !strings.Contains(text, "limits.memory") || !strings.Contains(text, "RATE_LIMITED") {
				t.Errorf("%.300s", text)
			}
		case <-arrived:
		}
	}
	u := pool.Usage()
	if u.Memory < 3*int64(sent) || u.Memory > limit/2 {
		t.Errorf("calls of one principal hold %d bytes of %d, and a message has %d", u.Memory, limit, sent)
	}
	close(let)
	all.Wait()
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("after the calls: %+v", u)
	}

	text, failed := call(`{"rows":[` + ref + strings.Repeat(","+ref, 30) + `]}`)
	if !failed || !strings.Contains(text, "all rows of a call may have 2097152") {
		t.Errorf("more than a call may have: %.300s", text)
	}
}

// The copies that are made of an answer to take its bodies out are counted: where there is no room for them, the
// answer is withheld, and the error says that the tool has run.
func TestAnswersWithBodiesAreCounted(t *testing.T) {
	const limit = 16 << 20
	pool := memory.NewPool(memory.Options{Limit: limit, Wait: 10 * time.Millisecond})
	h := newServed(t, metatool.Options{Memory: pool})
	answer := calltest.Text(`{"abstract":[{"_row_id":0}],"body":[{"_row_id":0,"text":"` + strings.Repeat("long ", 1<<18) + `"}],"total_rows":1}`)
	full := false
	h.Add("up", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		for _, name := range []string{"bob", "eve"} {
			if !full {
				continue
			}
			ctx, scope := memory.WithScope(context.Background())
			t.Cleanup(scope.End)
			scope.Count(pool, "principal ", name)
			if err := memory.Take(ctx, limit/2); err != nil {
				t.Error(err)
			}
		}
		return json.RawMessage(answer), nil
	}, `{"name":"take","description":"Take rows.","inputSchema":{"type":"object"}}`)
	call := fmt.Sprintf(`{"tool_id":%q,"args":{}}`, h.ID(t, "up", "take"))
	if s := h.Tool(t, metatool.ToolExecute, call); s.IsError || strings.Contains(fmt.Sprint(s.Content), "long long") {
		t.Errorf("%.300s", fmt.Sprint(s.Content))
	}
	full = true
	if s := h.Tool(t, metatool.ToolExecute, call); !s.IsError || !strings.Contains(fmt.Sprint(s.Content), "limits.memory") || !strings.Contains(fmt.Sprint(s.Content), `"executed":true`) {
		t.Errorf("%.600s", fmt.Sprint(s.Content))
	}
}

// What a query of a reference makes is counted as well.
func TestQueriesOfReferencesAreCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 24 << 20, Wait: 10 * time.Millisecond})
	h := newServed(t, metatool.Options{Memory: pool})
	h.Add("up", calltest.Echo, `{"name":"take","description":"Take rows.","inputSchema":{"type":"object"}}`)
	handle := keep(t, h.Harness, `[`+strings.Repeat(`{"a":"some text"},`, 200_000)+`{"a":"x"}]`)
	for query, fits := range map[string]bool{
		`"where":{"column":"a","op":"eq","value":"x"}`: true,
		`"order_by":"a","limit":1`:                     false,
	} {
		call := fmt.Sprintf(`{"tool_id":%q,"args":{"rows":{"$table":%q,%s}}}`, h.ID(t, "up", "take"), handle, query)
		s := h.Tool(t, metatool.ToolExecute, call)
		if text := fmt.Sprint(s.Content); s.IsError == fits || !fits && !strings.Contains(text, "half of limits.memory") {
			t.Errorf("%s: %.300s", query, text)
		}
		if u := pool.Usage(); u.Memory != 0 {
			t.Errorf("after the call: %+v", u)
		}
	}
}
