package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// worstPattern keeps hundreds of threads of Go's engine alive at every byte.
const worstPattern = `(?:a?){300}b`

// costlyTool is a tool whose schema asks for as much as one validation may cost.
const costlyTool = `{"name":"match","description":"Match a text.","inputSchema":{"type":"object","properties":{"text":{"type":"string","pattern":"` + worstPattern + `"}}}}`

// TestChecksEndWithTheCall: a validation that goes on for long ends when the call
// does, and when the server's time for a call is over; the server hears of neither.
func TestChecksEndWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := work.NewTurns(1)
		h := metatooltest.New(t, metatool.Options{Turns: turns, CallTimeout: func(upstream string) time.Duration {
			if upstream == "slow" {
				return 2 * time.Second
			}
			return 0
		}})
		h.Add("slow", calltest.Echo, costlyTool)
		h.Add("endless", calltest.Echo, costlyTool)
		args := func(upstream string) string {
			return fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"text":%q}}}`, h.ID(t, upstream, "match"), strings.Repeat("a", 1<<20))
		}
		// Another computation has the only turn.
		other := work.NewMeter(t.Context(), work.Options{Turns: turns})
		if err := other.Spend(2 * work.Small); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		e := calltest.Failure(t, h.Raw(t, args("slow")))
		if e.Error != "UPSTREAM_TIMEOUT" || !strings.Contains(e.Message, `2s, the timeout of server "slow"`) || time.Since(began) != 2*time.Second {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_, err := h.Gateway.Serve(ctx, &mcp.Request{Session: h.Session, Method: "tools/call", Params: json.RawMessage(args("endless"))})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		other.Close()
		// Small arguments never wait, and those that cost too much are refused.
		if s := h.Raw(t, strings.Replace(args("slow"), strings.Repeat("a", 1<<20), "ab", 1)); s.IsError {
			t.Errorf("%+v", s)
		}
		e = calltest.Failure(t, h.Raw(t, args("endless")))
		if e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "too expensive for an argument of 1048576 bytes") {
			t.Errorf("%+v", e)
		}
		if n := len(h.Called()); n != 1 {
			t.Errorf("%d calls reached a server", n)
		}
	})
}
