package subscription

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// listener is a modern server that keeps subscriptions.
type listener struct {
	acks  bool
	after time.Duration // ends each subscription; 0 keeps it
	with  error         // ends it

	mu     sync.Mutex // guards below
	open   []string   // the notifications of those that are open
	opened int
	missed int // times that Listen told of a gap
}

func (l *listener) serve(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if method != methodListen {
		return nil, mcp.MethodNotFound(method)
	}
	what := string(rawjson.Get(params, "notifications"))
	l.mu.Lock()
	l.open = append(l.open, what)
	l.opened++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = slices.DeleteFunc(l.open, func(o string) bool { return o == what })
	}()
	if l.acks {
		if _, err := back.Serve(ctx, &mcp.Request{Method: methodAcknowledged, Params: json.RawMessage(`{}`)}); err != nil {
			return nil, err
		}
	}
	if l.after == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(l.after):
		return nil, l.with
	}
}

func (l *listener) state() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.open)
}

// counts returns how many subscriptions there were, and how many gaps.
func (l *listener) counts() (opened, missed int) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened, l.missed
}

// listen runs Listen for a test in a time of its own. ended is closed when Listen returns by itself.
func listen(t *testing.T, l *listener, capabilities string, f func(r *Registry, line *Line, conn *fakeConn, ended <-chan struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{hello: mcp.Hello{Modern: true, Capabilities: json.RawMessage(capabilities)}, serve: l.serve}
		server, r := newServer(t, conn)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			server.shared.Listen(ctx, conn, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.missed++
			})
		}()
		f(r, server.shared, conn, ended)
		cancel()
		<-ended
		if got := l.state(); got != "[]" {
			t.Errorf("after the end %s are open", got)
		}
	})
}

// TestListenFollowsTheResources: the server is listened to for the lists that it tells of and for the resources that are
// subscribed to. The next subscription is there before the last one ends.
func TestListenFollowsTheResources(t *testing.T) {
	for _, acks := range []bool{true, false} {
		l := &listener{acks: acks}
		listen(t, l, `{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"subscribe":true}}`, func(r *Registry, line *Line, conn *fakeConn, _ <-chan struct{}) {
			const lists = `{"toolsListChanged":true}`
			if got := l.state(); got != "["+lists+"]" {
				t.Errorf("at first %s", got)
			}
			sub, err := r.Resource("z:1", func(json.RawMessage) {})
			if err != nil {
				t.Fatal(err)
			}
			if err := sub.Begin(t.Context(), line, conn); err != nil {
				t.Fatal(err)
			}
			const both = `{"toolsListChanged":true,"resourceSubscriptions":["z:1"]}`
			if got, want := l.state(), map[bool]string{true: "[" + both + "]", false: "[" + lists + " " + both + "]"}[acks]; got != want {
				t.Errorf("acknowledged %t: %s, want %s", acks, got, want)
			}
			time.Sleep(AckTime)
			if got := l.state(); got != "["+both+"]" {
				t.Errorf("later %s", got)
			}
			sub.Stop()
			synctest.Wait()
			time.Sleep(AckTime)
			if got := l.state(); got != "["+lists+"]" {
				t.Errorf("at last %s", got)
			}
			if _, missed := l.counts(); missed != 0 {
				t.Errorf("missed %d", missed)
			}
		})
	}
}

// TestListenWaitsForAReason: a server that tells of no list is listened to only while a resource is subscribed to.
func TestListenWaitsForAReason(t *testing.T) {
	l := &listener{acks: true}
	listen(t, l, `{}`, func(r *Registry, line *Line, conn *fakeConn, _ <-chan struct{}) {
		if got := l.state(); got != "[]" {
			t.Errorf("at first %s", got)
		}
		sub, err := r.Resource("z:1", func(json.RawMessage) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.Begin(t.Context(), line, conn); err != nil {
			t.Fatal(err)
		}
		if got := l.state(); got != `[{"resourceSubscriptions":["z:1"]}]` {
			t.Errorf("then %s", got)
		}
		sub.Stop()
		synctest.Wait()
		if got := l.state(); got != "[]" {
			t.Errorf("at last %s", got)
		}
	})
}

// TestListenStartsAgain: after a subscription that the server has ended, the next one waits longer and longer, and what
// was missed is looked for.
func TestListenStartsAgain(t *testing.T) {
	l := &listener{after: time.Millisecond, with: io.ErrUnexpectedEOF}
	listen(t, l, `{"tools":{"listChanged":true}}`, func(_ *Registry, _ *Line, _ *fakeConn, _ <-chan struct{}) {
		for _, tt := range []struct {
			after  time.Duration
			opened int
		}{{500 * time.Millisecond, 1}, {time.Second, 2}, {2 * time.Second, 3}, {4 * time.Second, 4}} {
			time.Sleep(tt.after)
			if opened, missed := l.counts(); opened != tt.opened || missed != tt.opened-1 {
				t.Errorf("after %s more: %d subscriptions, missed %d, want %d", tt.after, opened, missed, tt.opened)
			}
		}
		time.Sleep(time.Hour)
		if opened, _ := l.counts(); opened < 60 || opened > 70 { // one a minute
			t.Errorf("after an hour: %d subscriptions", opened)
		}
	})
}

// TestListenEndsWhereItIsRefused: a server that answers with an error keeps no subscriptions.
func TestListenEndsWhereItIsRefused(t *testing.T) {
	l := &listener{after: time.Millisecond, with: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no"}}
	listen(t, l, `{"tools":{"listChanged":true}}`, func(_ *Registry, _ *Line, _ *fakeConn, ended <-chan struct{}) {
		<-ended
		if opened, missed := l.counts(); opened != 1 || missed != 0 {
			t.Errorf("%d subscriptions, missed %d", opened, missed)
		}
	})
}
