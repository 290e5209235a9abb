package upstream

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// What the client takes to answer is not the server's time.
func TestLimitLeavesOutQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		person := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			time.Sleep(time.Hour)
			return nil, nil
		})
		ctx, back := limit(t.Context(), time.Minute, person)
		defer back.end()
		time.Sleep(59 * time.Second)
		for range 3 {
			_, _ = back.Serve(ctx, &mcp.Request{ID: "1", Method: "elicitation/create"})
			synctest.Wait()
			if ctx.Err() != nil {
				t.Fatal("the call ended while a person was asked")
			}
		}
		time.Sleep(59 * time.Second)
		if ctx.Err() != nil {
			t.Error("the server did not get its time again")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if context.Cause(ctx) != context.DeadlineExceeded {
			t.Errorf("cause %v", context.Cause(ctx))
		}
	})
}

// Two questions at once, the shorter first; a notification is none.
func TestLimitWithSeveralQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, back := limit(t.Context(), time.Minute, mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			d, _ := time.ParseDuration(string(r.ID))
			time.Sleep(d)
			return nil, nil
		}))
		defer back.end()
		go func() { _, _ = back.Serve(ctx, &mcp.Request{ID: "2m"}) }()
		go func() { _, _ = back.Serve(ctx, &mcp.Request{ID: "10m"}) }()
		time.Sleep(10*time.Minute + 59*time.Second)
		if ctx.Err() != nil {
			t.Error("ended while the longer question waited")
		}
		_, _ = back.Serve(ctx, &mcp.Request{})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("a notification gave the server more time")
		}
	})
}

func TestAskable(t *testing.T) {
	for in, want := range map[string]string{
		``:   `{}`,
		`{}`: `{}`,
		`{"roots":{"listChanged":true},"tasks":{},"sampling":{"tools":{}},"elicitation":null}`: `{"sampling":{"tools":{}},"roots":{"listChanged":true}}`,
		`{"roots":{},"roots":{}}`: `{}`,
	} {
		if got := askable(json.RawMessage(in)); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
