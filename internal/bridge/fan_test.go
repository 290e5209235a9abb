package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/mcp"
)

func TestMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMailbox()
		params := []byte(`{"uri":"a"}`)
		m.Updated(params)
		params[8] = 'b' // the sender's buffer is used again
		m.Updated(params)
		m.Updated([]byte(`{"uri":"a"}`)) // waits already
		for range 2 {
			m.Put("notifications/message", []byte(`{"data":1}`)) // said twice is said twice
		}
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		go m.Deliver(ctx, func(n Notice) { got = append(got, n.Method+string(n.Params)) })
		synctest.Wait()
		want := `[notifications/resources/updated{"uri":"a"} notifications/resources/updated{"uri":"b"} notifications/message{"data":1} notifications/message{"data":1}]`
		if fmt.Sprint(got) != want {
			t.Errorf("%v", got)
		}
		cancel()
		synctest.Wait()
		for n := range maxWaiting + 10 {
			m.Put("x", fmt.Append(nil, n))
		}
		left := m.take()
		if len(left) != maxWaiting || string(left[0].Params) != "10" || m.Dropped() != 10 {
			t.Errorf("%d wait, from %s on; %d dropped", len(left), left[0].Params, m.Dropped())
		}
	})
}

func TestFanEndsWhatItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Fan
		var running atomic.Int64
		work := func(ctx context.Context) {
			running.Add(1)
			<-ctx.Done()
			running.Add(-1)
		}
		stop := f.Run(work)
		f.Run(work)
		synctest.Wait()
		stop()
		stop()
		synctest.Wait()
		if running.Load() != 1 || len(f.stops) != 1 {
			t.Errorf("%d run, %d are known", running.Load(), len(f.stops))
		}
		f.Close()
		if running.Load() != 0 {
			t.Errorf("%d run after close", running.Load())
		}
		f.Run(work)
		synctest.Wait()
		if running.Load() != 0 {
			t.Error("a closed fan started something")
		}
	})
}

func TestPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fan Fan
		var mu sync.Mutex
		var got []string
		hold := make(chan struct{})
		p := NewPost(&fan, func(ctx context.Context, n Notice) {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n.Method)
		})
		p.Put("a", nil)
		synctest.Wait()
		p.Put("b", nil)
		p.Put("c", nil)
		close(hold)
		synctest.Wait()
		p.Put("d", nil)
		synctest.Wait()
		mu.Lock()
		if fmt.Sprint(got) != "[a b c d]" {
			t.Error(got)
		}
		mu.Unlock()
		hold = make(chan struct{})
		p.Put("e", nil)
		synctest.Wait()
		p.Put("f", nil)
		p.End()
		p.Put("g", nil)
		synctest.Wait()
		if fmt.Sprint(got) != "[a b c d e]" {
			t.Error(got)
		}
		fan.Close()
		NewPost(&fan, func(context.Context, Notice) { t.Error("sent by a closed Fan") }).Put("h", nil)
	})
}

func TestWish(t *testing.T) {
	capabilities := `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true}}`
	many := `["u0"` + strings.Repeat(`,"u"`, 3) + `]`
	tests := []struct{ params, want string }{
		{`{"notifications":{}}`, `{"notifications":{}}`},
		{`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`, `{"notifications":{"toolsListChanged":true}}`},
		{`{"notifications":{"toolsListChanged":false,"future":true}}`, `{"notifications":{}}`},
		{`{"notifications":{"resourceSubscriptions":["a&b","a&b",""]}}`, `{"notifications":{"resourceSubscriptions":["a&b"]}}`},
		{`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":` + many + `}}`, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["u0","u"]}}`},
	}
	for _, tt := range tests {
		w, err := ReadWish(json.RawMessage(tt.params), json.RawMessage(capabilities))
		if err != nil || string(w.Granted) != tt.want {
			t.Errorf("%s: %s, %v", tt.params, w.Granted, err)
		}
	}
	var uris []string
	for n := range MaxResources + 1 {
		uris = append(uris, fmt.Sprintf("%q", fmt.Sprint("u", n)))
	}
	for _, params := range []string{`{}`, `{"notifications":true}`, `{"notifications":{"resourceSubscriptions":[` + strings.Join(uris, ",") + `]}}`} {
		_, err := ReadWish(json.RawMessage(params), json.RawMessage(capabilities))
		if k, _ := mcp.KindOf(err); err == nil || k != mcp.KindInvalidParams {
			t.Errorf("%.60s: %v", params, err)
		}
	}
}

// leveler notes the levels it is told.
type leveler []string

func (l *leveler) SetLogLevel(_ context.Context, level string) error {
	*l = append(*l, level)
	return nil
}

func TestLevels(t *testing.T) {
	var l Levels
	var server leveler
	session := mcp.NewSession("", "ann")
	if got := l.Of(session); got != "" {
		t.Errorf("nobody wished anything: %q", got)
	}
	call := func(level string) string {
		r := &mcp.Request{Version: mcp.V20260728, Session: session}
		if level != "" {
			r.Params = fmt.Appendf(nil, `{"_meta":{%q:%q}}`, mcp.MetaLogLevel, level)
		}
		got, err := l.OfCall(t.Context(), r, &server, nil)
		if err != nil {
			return err.Error()
		}
		return got
	}
	for _, c := range [][2]string{{"", noLogs}, {"error", "error"}, {"warning", "warning"}, {"error", "error"}, {"loud", `params._meta["io.modelcontextprotocol/logLevel"]: "loud" is no log level`}} {
		if got := call(c[0]); got != c[1] {
			t.Errorf("%q: %q", c[0], got)
		}
	}
	if fmt.Sprint(server) != "[error warning]" {
		t.Errorf("the server was told %v", server)
	}
	if got := l.Of(session); got != "info" {
		t.Errorf("others have set the level: %q", got)
	}
	session.SetLogLevel("debug")
	if got := l.Of(session); got != "debug" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		level, params string
		want          bool
	}{{"", `{"level":"debug"}`, true}, {noLogs, `{"level":"emergency"}`, false}, {"warning", `{"level":"info"}`, false}, {"warning", `{"level":"error"}`, true}, {"warning", `{}`, true}} {
		if got := wantedLevel(c.level, json.RawMessage(c.params)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
