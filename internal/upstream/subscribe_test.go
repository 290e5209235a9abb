package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestResourceSubscriptionsAreCountedAndRenewed(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			t.Parallel()
			f := &fake{capabilities: `{"resources":{"subscribe":true}}`, modern: modern}
			type listen struct {
				uris string
				from mcp.Peer
				id   jsonrpc.ID
			}
			var mu sync.Mutex
			var open []*listen // subscriptions that have not ended; requests may arrive in any order
			f.serve = func(_ *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
				if r.Method != "subscriptions/listen" {
					return nil, nil
				}
				l := &listen{string(rawjson.Get(r.Params, "notifications")), r.Peer, r.ID}
				mu.Lock()
				open = append(open, l)
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				open = slices.DeleteFunc(open, func(o *listen) bool { return o == l })
				mu.Unlock()
				return nil, ctx.Err()
			}
			inBubble(t, f, Options{}, &mcpserver.Server{IdleTimeout: time.Minute}, func(t *testing.T, m *Manager, _ *sink) {
				u := upstreamOf(t, m, "fake")
				heard := map[string]int{}
				var stops []func()
				for _, name := range []string{"x", "x2", "y"} {
					uri := "file:///" + name[:1]
					stop, err := u.SubscribeResource(t.Context(), uri, func(params json.RawMessage) {
						mu.Lock()
						defer mu.Unlock()
						if got := rawjson.Text(rawjson.Get(params, "uri")); !strings.HasPrefix(got, uri) || strings.Contains(string(params), "subscriptionId") {
							t.Errorf("%s hears of %s", uri, params)
						}
						heard[name]++
					})
					if err != nil {
						t.Fatal(err)
					}
					stops = append(stops, stop)
				}
				update := func(uri string) {
					t.Helper()
					synctest.Wait()
					var err error
					if modern {
						mu.Lock()
						l := *open[0]
						mu.Unlock()
						err = l.from.Notify(t.Context(), "notifications/resources/updated", fmt.Appendf(nil, `{"uri":%q,"_meta":{%q:%s}}`, uri, mcp.MetaSubscriptionID, l.id))
					} else {
						err = f.last().Notify(t.Context(), "notifications/resources/updated", fmt.Appendf(nil, `{"uri":%q}`, uri))
					}
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				subscribed := func(what string, uris ...string) {
					t.Helper()
					time.Sleep(subscription.AckTime) // the fake acknowledges none
					synctest.Wait()
					if modern {
						mu.Lock()
						defer mu.Unlock()
						want, _ := json.Marshal(uris)
						if len(open) != 1 || open[0].uris != `{"resourceSubscriptions":`+string(want)+`}` {
							t.Fatalf("%s: listens to %+v", what, open)
						}
					}
				}
				subscribed("at first", "file:///x", "file:///y")
				if !modern && (f.count(`resources/subscribe "file:///x"`) != 1 || f.count(`resources/subscribe "file:///y"`) != 1) {
					t.Errorf("%v", f.asked)
				}
				update("file:///x")
				update("file:///x/below")
				update("file:///xother")

				// The connection dies: it is made again for the subscriptions.
				f.last().Close()
				time.Sleep(10 * time.Second)
				subscribed("after the restart", "file:///x", "file:///y")
				if !modern && f.count(`resources/subscribe "file:///x"`) != 2 {
					t.Errorf("%v", f.asked)
				}
				update("file:///y")
				stops[0]()
				stops[0]()
				synctest.Wait()
				update("file:///x")
				stops[1]()
				subscribed("after the end", "file:///y")
				if !modern && f.count(`resources/unsubscribe "file:///x"`) != 1 {
					t.Errorf("%v", f.asked)
				}
				mu.Lock()
				if want := map[string]int{"x": 2, "x2": 3, "y": 1}; fmt.Sprint(heard) != fmt.Sprint(want) {
					t.Errorf("heard %v, want %v", heard, want)
				}
				mu.Unlock()
				// It is not idle while somebody subscribes, and is afterwards.
				time.Sleep(time.Hour)
				if st := u.Status(); st.State != StateReady || f.started() != 2 {
					t.Errorf("%+v, %d starts", st, f.started())
				}
				stops[2]()
				time.Sleep(time.Hour)
				synctest.Wait()
				if st := u.Status(); st.State != StateIdle {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A modern server is listened to all the time while what is listened to changes:
// what it says in between would be lost.
func TestListeningHasNoGaps(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: `{"resources":{"subscribe":true}}`, modern: true}
	var mu sync.Mutex
	var open []string // resources of the subscriptions that are
	f.serve = func(_ *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method != "subscriptions/listen" {
			return nil, nil
		}
		uris := string(rawjson.GetPath(r.Params, "notifications", "resourceSubscriptions"))
		mu.Lock()
		open = append(open, uris)
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			open = slices.DeleteFunc(open, func(s string) bool { return s == uris })
		}()
		time.Sleep(time.Second)
		if uris != `["z:1","z:2","z:3"]` { // the last one is never acknowledged
			ack := fmt.Appendf(nil, `{"_meta":{%q:%s}}`, mcp.MetaSubscriptionID, r.ID)
			if err := r.Peer.Notify(ctx, "notifications/subscriptions/acknowledged", ack); err != nil {
				return nil, err
			}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		is := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(open, want) {
				t.Errorf("open are %v, want %v", open, want)
			}
		}
		subscribe := func(uri string) (stop func()) {
			t.Helper()
			stop, err := u.SubscribeResource(t.Context(), uri, func(json.RawMessage) {})
			if err != nil {
				t.Fatal(err)
			}
			return stop
		}
		stops := []func(){subscribe("z:1")}
		is(`["z:1"]`)
		time.Sleep(2 * time.Second)
		stops = append(stops, subscribe("z:2"))
		is(`["z:1"]`, `["z:1","z:2"]`)
		time.Sleep(1100 * time.Millisecond)
		is(`["z:1","z:2"]`)
		stops = append(stops, subscribe("z:3"))
		time.Sleep(1100 * time.Millisecond)
		is(`["z:1","z:2"]`, `["z:1","z:2","z:3"]`)
		time.Sleep(subscription.AckTime)
		is(`["z:1","z:2","z:3"]`)
		for _, stop := range stops {
			stop()
		}
		time.Sleep(10 * time.Second)
		is()
	})
}

// A modern server that keeps one subscription at a time has the newest one.
func TestListeningToAServerOfOneSubscription(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: `{"resources":{"subscribe":true}}`, modern: true}
	var mu sync.Mutex
	open := "" // resources of the subscription that is
	refused := 0
	f.serve = func(_ *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method != "subscriptions/listen" {
			return nil, nil
		}
		mu.Lock()
		if open != "" {
			refused++
			mu.Unlock()
			return nil, mcp.Errorf(mcp.KindOverloaded, "one at a time")
		}
		open = string(rawjson.GetPath(r.Params, "notifications", "resourceSubscriptions"))
		mu.Unlock()
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		open = ""
		return nil, ctx.Err()
	}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		for _, uri := range []string{"z:1", "z:2"} {
			if _, err := u.SubscribeResource(t.Context(), uri, func(json.RawMessage) {}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		if open != `["z:1","z:2"]` || refused == 0 {
			t.Errorf("open is %s, %d refused", open, refused)
		}
	})
}

func TestLogLevelIsTheMostVerbose(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: `{"tools":{},"logging":{}}`}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		a, b := mcp.NewSession("", "a"), mcp.NewSession("", "b")
		set := func(s *mcp.Session, level string) {
			t.Helper()
			if err := u.SetLogLevel(mcp.WithCaller(t.Context(), s), level); err != nil {
				t.Fatal(err)
			}
		}
		set(a, "error")
		set(b, "debug")
		set(a, "warning") // debug stays
		if err := u.SetLogLevel(mcp.WithCaller(t.Context(), a), "loud"); err == nil {
			t.Error("loud is a level")
		}
		b.Close()
		synctest.Wait()
		// A log message of a shared connection is for no session.
		var heard []string
		stop := u.Subscribe(mcp.WithCaller(t.Context(), a), func(method string, _ json.RawMessage) { t.Errorf("a session hears %s", method) })
		stopAll := u.Subscribe(t.Context(), func(method string, params json.RawMessage) { heard = append(heard, method+string(params)) })
		if err := f.last().Notify(t.Context(), "notifications/message", json.RawMessage(`{"level":"warning","data":"hot"}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		stopAll()
		if want := []string{`notifications/message{"level":"warning","data":"hot"}`}; !slices.Equal(heard, want) {
			t.Errorf("%v", heard)
		}
		f.last().Close()
		time.Sleep(10 * time.Second)
		var levels []string
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, asked := range f.asked {
			if level, ok := strings.CutPrefix(asked, "logging/setLevel "); ok {
				levels = append(levels, level)
			}
		}
		if want := []string{`"error"`, `"debug"`, `"warning"`, `"warning"`}; !slices.Equal(levels, want) {
			t.Errorf("%v, want %v", levels, want)
		}
	})
}
