package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
)

// A result in a file is the request's that takes it, which is another one than the
// one that began the call; of a call that is given up nothing is left.
func TestRoundsOfLargeResults(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	want := `{"text":"` + strings.Repeat("x", 3<<20) + `"}`
	large := func(ctx context.Context) (json.RawMessage, error) {
		b := pool.Account("large").NewBuffer(ctx, 8<<20)
		if err := b.Fill(strings.NewReader(want), -1); err != nil {
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
	x := NewRounds(Options{})
	defer x.Close()
	returned := make(chan struct{}, 1)
	a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		defer func() { returned <- struct{}{} }()
		if _, err := r.Peer.Call(ctx, methodElicit, json.RawMessage(`{"message":"name?"}`), nil); err != nil {
			return large(context.WithoutCancel(ctx)) // it does not notice that its agent has left
		}
		return large(ctx)
	})

	ctx, scope := memory.WithScope(t.Context())
	asked, err := a.call(ctx, "")
	scope.End()
	if err != nil {
		t.Fatal(err)
	}
	ctx, scope = memory.WithScope(t.Context())
	result, err := a.call(ctx, answer(t, asked, `{"ask-1":{"name":"n"}}`))
	if err != nil || string(result) != want || !scope.Ends(result) {
		t.Errorf("%d bytes, %v; it ends with the request: %t", len(result), err, scope.Ends(result))
	}
	scope.End()
	<-returned
	if u := pool.Usage(); u.Disk != 0 || u.Memory != 0 {
		t.Errorf("after the answer there is %+v", u)
	}

	asked, err = a.call(t.Context(), "")
	if err != nil || !IsInputRequired(asked) {
		t.Fatalf("%s, %v", asked, err)
	}
	x.Drain()
	<-returned
	if u := pool.Usage(); u.Disk != 0 || u.Memory != 0 {
		t.Errorf("of a parked call there is %+v", u)
	}

	y := NewRounds(Options{})
	defer y.Close()
	b := newAgent(t, y, func(ctx context.Context, _ *mcp.Request) (json.RawMessage, error) {
		<-ctx.Done()
		return large(context.WithoutCancel(ctx))
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.call(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if u := pool.Usage(); u.Disk != 0 || u.Memory != 0 {
		t.Errorf("of a call whose agent left there is %+v", u)
	}
}
