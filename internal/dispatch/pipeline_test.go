package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/mcp"
)

// TestPipeline: steps run in the order of their phases on the way to the server, and in the reverse order on
// the way back. A step that ends a call gets no outcome.
func TestPipeline(t *testing.T) {
	failed := errors.New("failed")
	for _, tt := range []struct {
		name    string
		outcome error // of the step check
		panics  bool
		want    string
		err     error
	}{
		{"sent", nil, false, "account find check send check:<nil> find:<nil> account:<nil>", nil},
		{"answered", ErrAnswered, false, "account find check find:<nil> account:<nil>", nil},
		{"refused", failed, false, "account find check find:failed account:failed", failed},
		{"panic", nil, true, "account find check send check:the call has panicked find:the call has panicked account:the call has panicked", nil},
	} {
		var order []string
		step := func(p Phase, name string, outcome error) Step {
			return Step{Phase: p, Name: name, Before: func(context.Context, *Call) error {
				order = append(order, name)
				return outcome
			}, After: func(_ context.Context, c *Call, err error) error {
				order = append(order, name+":"+errorText(err))
				if err != nil && c.Reply != nil {
					t.Errorf("%s: %s got a reply and an error", tt.name, name)
				}
				if tt.panics && name == "check" {
					panic("one more")
				}
				return err
			}}
		}
		p := New(Sender{Names: []string{"send"}, Send: func(context.Context, *Call) (json.RawMessage, error) {
			order = append(order, "send")
			if tt.panics {
				panic("broken")
			}
			return json.RawMessage("{}"), nil
		}}, step(PhaseCheck, "check", tt.outcome), step(PhaseAccount, "account", nil), step(PhaseFind, "find", nil))
		if got := strings.Join(p.Names(), " "); got != "account find check send" {
			t.Errorf("names %s", got)
		}
		func() {
			defer func() {
				if recover() != nil != tt.panics {
					t.Errorf("%s: panicked %t", tt.name, !tt.panics)
				}
			}()
			if _, err := p.Run(t.Context(), &Call{}); err != tt.err {
				t.Errorf("%s: %v", tt.name, err)
			}
		}()
		if got := strings.Join(order, " "); got != tt.want {
			t.Errorf("%s: order %s", tt.name, got)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}

// TestPanicLandsFlight: the equal calls that wait for a call that panics make calls of their own.
func TestPanicLandsFlight(t *testing.T) {
	newest := sampleCatalog(t)
	k := NewCache(CacheOptions{ReadOnly: true}, func() *catalog.Catalog { return newest })
	session := mcp.NewSession("", "ann")
	defer session.Close()
	call := func() *Call {
		return &Call{Request: &mcp.Request{Session: session, Params: json.RawMessage(`{}`)}, Entry: entryNamed(t, newest, "files", "read_file"), Args: json.RawMessage(`{}`), Catalog: newest}
	}
	waits, first := make(chan error), true
	p := New(Sender{Send: func(context.Context, *Call) (json.RawMessage, error) {
		if !first {
			return json.RawMessage(`{"content":[]}`), nil
		}
		first = false
		go func() {
			p := New(Sender{Send: func(context.Context, *Call) (json.RawMessage, error) { return json.RawMessage(`{"content":[]}`), nil }}, k.Step())
			_, err := p.Run(t.Context(), call())
			waits <- err
		}()
		for !slices.ContainsFunc(flying(k), k.flights.awaited) {
		}
		panic("broken")
	}}, k.Step())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was kept back")
			}
		}()
		_, _ = p.Run(t.Context(), call())
	}()
	if err := <-waits; err != nil || len(flying(k)) != 0 {
		t.Errorf("%v, %d flights are left", err, len(flying(k)))
	}
}

// flying returns the flights of a cache.
func flying(k *Cache) (all []*flight) {
	k.flights.mu.Lock()
	defer k.flights.mu.Unlock()
	for _, f := range k.flights.flying {
		all = append(all, f)
	}
	return all
}
