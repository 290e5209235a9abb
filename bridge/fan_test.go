package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/mcp"
)

func TestMailbox(t *testing.T) {
	m := NewMailbox()
	params := []byte(`{"uri":"a"}`)
	m.Updated(params)
	params[8] = 'b' // the sender's again
	m.Put(ToolsChanged, nil)
	m.Put(ToolsChanged, nil)
	m.Updated(json.RawMessage(`{"uri":"a"}`))
	m.Put("notifications/message", nil)
	m.Put("notifications/message", nil)
	if got := fmt.Sprintf("%s", m.take()); got != `[{notifications/resources/updated {"uri":"a"}} {notifications/tools/list_changed } {notifications/message } {notifications/message }]` {
		t.Error(got)
	}
	for i := range maxWaiting + 10 {
		m.Put("n", fmt.Append(nil, i))
	}
	if got := m.take(); len(got) != maxWaiting || string(got[0].Params) != "10" || m.Dropped() != 10 {
		t.Errorf("%d notices from %s, %d dropped", len(got), got[0].Params, m.Dropped())
	}
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

func TestReadWish(t *testing.T) {
	all := json.RawMessage(`{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true}}`)
	w, err := ReadWish(json.RawMessage(`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false,"resourceSubscriptions":["a","b","a",1]}}`), all)
	if err != nil || fmt.Sprint(w.Methods, w.Resources) != "[notifications/tools/list_changed] [a b]" ||
		string(w.Granted) != `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a","b"]}}` || w.Empty() || !w.Wants(ToolsChanged) {
		t.Errorf("%+v %s %v", w, w.Granted, err)
	}
	if w, err = ReadWish(json.RawMessage(`{"notifications":{"resourceSubscriptions":["a"]}}`), nil); err != nil || !w.Empty() || string(w.Granted) != `{"notifications":{}}` {
		t.Errorf("%+v %s %v", w, w.Granted, err)
	}
	if _, err = ReadWish(json.RawMessage(`{}`), all); kindOf(err) != mcp.KindInvalidParams {
		t.Error(err)
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
	for _, c := range [][2]string{{"", NoLogs}, {"error", "error"}, {"warning", "warning"}, {"error", "error"}, {"loud", `params._meta["io.modelcontextprotocol/logLevel"]: "loud" is no log level`}} {
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
	}{{"", `{"level":"debug"}`, true}, {NoLogs, `{"level":"emergency"}`, false}, {"warning", `{"level":"info"}`, false}, {"warning", `{"level":"error"}`, true}, {"warning", `{}`, true}} {
		if got := Wanted(c.level, json.RawMessage(c.params)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
