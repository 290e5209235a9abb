package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

// asHook is the variable that makes of this test a program that is asked.
const asHook = "WEIR_TEST_AS_HOOK"

func TestMain(m *testing.M) {
	if how := os.Getenv(asHook); how != "" {
		answerAsProgram(how)
		return
	}
	leak.Main(m)
}

// answerAsProgram is a hook: it reads a question and answers it.
func answerAsProgram(how string) {
	question, _ := io.ReadAll(os.Stdin)
	switch how {
	case "judge":
		if strings.Contains(string(question), "evil") {
			fmt.Print(`{"action":"deny","reason":"the arguments are evil"}`)
			return
		}
		fmt.Printf(`{"action":"allow"}`)
	case "fail":
		fmt.Print(`{"action":"allow"}`)
		fmt.Fprintln(os.Stderr, "no model is loaded")
		os.Exit(3)
	case "environment":
		fmt.Printf(`{"action":"deny","reason":%q}`, strings.Join(os.Environ(), " "))
	case "hang":
		time.Sleep(time.Minute)
	}
}

func plain(raw []byte) []byte { return raw }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// set returns a Set of one hook that is asked about everything.
func set(t *testing.T, o Options) *Set {
	t.Helper()
	o.OnCall, o.OnResult = true, true
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if o.Name == "" {
		o.Name = "guards.hooks[0]"
	}
	if len(o.Command) > 0 {
		keeper := new(child.Keeper)
		t.Cleanup(keeper.Close)
		o.Keeper = keeper
	}
	s := New([]Options{o}, plain, quiet())
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, s *Set, q Question) *Refusal {
	t.Helper()
	if q.Kind == "" {
		q.Kind = Call
	}
	r, err := s.Ask(t.Context(), &q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestQuestion is what a hook at a URL gets, and how it gets it.
func TestQuestion(t *testing.T) {
	var asked []string
	var header http.Header
	from := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked, header = append(asked, r.Method+" "+string(body)), r.Header
		from[r.RemoteAddr] = true
		_, _ = io.WriteString(w, `{"action":"allow","score":0.1}`)
	}))
	defer server.Close()
	s := New([]Options{{Name: "pii", OnCall: true, OnResult: true, URL: server.URL, Headers: map[string]string{"Authorization": "Bearer k"}, Timeout: 20 * time.Second}},
		func(raw []byte) []byte { return []byte(strings.ReplaceAll(string(raw), "s3cret", "[redacted]")) }, quiet())
	defer s.Close()
	for _, q := range []Question{
		{Kind: Call, Server: "crm", ToolID: "crm:find#1", Method: "tools/call", Principal: "ann", Session: "tag", Trace: "0af7", Arguments: json.RawMessage(`{"key":"s3cret"}`), Params: json.RawMessage(`{"_meta":{"a":1}}`)},
		{Kind: Result, Server: "crm", Method: "tools/call", Result: json.RawMessage(`{"content":[]}`)},
	} {
		if r := ask(t, s, q); r != nil {
			t.Errorf("%+v", r)
		}
	}
	want := []string{
		`POST {"kind":"call","server":"crm","tool_id":"crm:find#1","method":"tools/call","principal":"ann","session":"tag","trace":"0af7","arguments":{"key":"[redacted]"},"params":{"_meta":{"a":1}}}`,
		`POST {"kind":"result","server":"crm","method":"tools/call","result":{"content":[]}}`,
	}
	if fmt.Sprint(asked) != fmt.Sprint(want) || header.Get("Authorization") != "Bearer k" || header.Get("Content-Type") != "application/json" {
		t.Errorf("asked\n%s\nwant\n%s\nwith %v", strings.Join(asked, "\n"), strings.Join(want, "\n"), header)
	}
	if len(from) != 1 {
		t.Errorf("%d connections", len(from))
	}
}

// TestAnswers are answers, and what becomes of them with each failure.
func TestAnswers(t *testing.T) {
	status, body := 200, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			_, _ = io.WriteString(w, `{"action":"allow"}`)
			return
		}
		w.Header().Set("Location", "/other")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	for _, tt := range []struct {
		status  int
		body    string
		refused string // the reason; "-" is a failure, "" none
	}{
		{200, `{"action":"allow"}`, ""},
		{200, ` {"reason":"fine","action":"allow"} `, ""},
		{200, `{"action":"deny","reason":"it has\na\u202e number of a card"}`, "it has a number of a card"},
		{200, `{"action":"deny","reason":"` + strings.Repeat("x", 9000) + `"}`, strings.Repeat("x", 199) + "…"},
		{200, `{"action":"deny"}`, "none"},
		{200, ``, "-"},
		{200, `allow`, "-"},
		{200, `[]`, "-"},
		{200, `{}`, "-"},
		{200, `{"action":"ALLOW"}`, "-"},
		{200, `{"action":true}`, "-"},
		{200, `{"action":"allow","action":"deny"}`, "-"},
		{200, `{"action":"allow","Action":"deny"}`, "-"},
		{200, `{"action":"allow"}{"action":"deny"}`, "-"},
		{200, `{"action":"allow","x":"` + strings.Repeat("x", maxAnswer) + `"}`, "-"},
		{201, `{"action":"allow"}`, "-"},
		{307, `{"action":"allow"}`, "-"},
		{403, `{"action":"deny"}`, "-"},
		{500, `{"action":"allow"}`, "-"},
	} {
		status, body = tt.status, tt.body
		for _, open := range []bool{false, true} {
			r := ask(t, set(t, Options{URL: server.URL + "/", Open: open}), Question{})
			switch {
			case tt.refused == "" || tt.refused == "-" && open:
				if r != nil {
					t.Errorf("%d %.60s, open %t: %+v", tt.status, tt.body, open, r)
				}
			case r == nil || r.Hook != "guards.hooks[0]" || r.Failed != (tt.refused == "-"):
				t.Errorf("%d %.60s, open %t: %+v", tt.status, tt.body, open, r)
			case !r.Failed && r.Reason != strings.TrimPrefix(tt.refused, "none"):
				t.Errorf("%d %.60s: the reason is %q", tt.status, tt.body, r.Reason)
			}
		}
	}
	server.Close()
	if r := ask(t, set(t, Options{URL: server.URL}), Question{}); r == nil || !r.Failed || strings.Contains(r.Reason, "127.0.0.1") {
		t.Errorf("a server that is gone: %+v", r)
	}
}

// TestOrder: hooks are asked in order, each about its kinds, and the first refusal ends it.
func TestOrder(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		asked = append(asked, r.URL.Path)
		action := "allow"
		if r.URL.Path == "/strict" && strings.Contains(string(question), "evil") {
			action = "deny"
		}
		_, _ = fmt.Fprintf(w, `{"action":%q}`, action)
	}))
	defer server.Close()
	of := func(name string, call, result bool) Options {
		return Options{Name: name, OnCall: call, OnResult: result, URL: server.URL + "/" + name, Timeout: 20 * time.Second}
	}
	s := New([]Options{of("first", true, false), of("strict", true, true), of("last", false, true), of("late", true, true)}, plain, quiet())
	defer s.Close()
	for _, tt := range []struct {
		q       Question
		refused bool
		want    string
	}{
		{Question{Kind: Call}, false, "/first /strict /late"},
		{Question{Kind: Result}, false, "/strict /last /late"},
		{Question{Kind: Call, Arguments: json.RawMessage(`"evil"`)}, true, "/first /strict"},
		{Question{Kind: Result, Result: json.RawMessage(`"evil"`)}, true, "/strict"},
	} {
		asked = nil
		if r := ask(t, s, tt.q); (r != nil) != tt.refused || strings.Join(asked, " ") != tt.want {
			t.Errorf("%+v: asked %q, %+v", tt.q, asked, r)
		}
	}
	var none *Set
	if none.Asks(Call) || ask(t, none, Question{}) != nil || New(nil, plain, quiet()) != nil {
		t.Error("a Set without hooks asks")
	}
	none.Close()
	only := New([]Options{of("first", true, false)}, plain, quiet())
	defer only.Close()
	if !only.Asks(Call) || only.Asks(Result) {
		t.Error("a hook is asked about what it is not for")
	}
}

// TestLarge: what is too large to be asked about has the failure's decision, and no hook gets it.
func TestLarge(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the hook was asked") }))
	defer server.Close()
	large := Question{Kind: Result, Result: rawjson.Quote(strings.Repeat("x", maxQuestion))}
	if r := ask(t, set(t, Options{URL: server.URL}), large); r == nil || !r.Failed || !strings.Contains(r.Reason, "bytes") {
		t.Errorf("%+v", r)
	}
	if r := ask(t, set(t, Options{URL: server.URL, Open: true}), large); r != nil {
		t.Errorf("failure: allow: %+v", r)
	}
}

// waiting is a hook that answers when the test lets it.
type waiting struct{ let chan struct{} }

func (w *waiting) ask(ctx context.Context, _ []byte) ([]byte, error) {
	select {
	case <-w.let:
		return []byte(`{"action":"allow"}`), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *waiting) close() {}

// TestTime: a late answer is a failure, the wait for a slot counts, and a caller who leaves gets the
// error of the context.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := &waiting{make(chan struct{})}
		h := &one{Options: Options{Name: "slow", OnCall: true, Timeout: 2 * time.Second}, by: by, slots: make(chan struct{}, 1)}
		s := &Set{hooks: []*one{h}, redact: plain, log: quiet()}
		begun := time.Now()
		if r := ask(t, s, Question{}); r == nil || !r.Failed || r.Reason != "it did not answer in 2s" || time.Since(begun) != 2*time.Second {
			t.Errorf("after %s: %+v", time.Since(begun), r)
		}
		h.slots <- struct{}{} // another question
		if r := ask(t, s, Question{}); r == nil || !r.Failed || r.Reason != "it has too many questions at a time" || time.Since(begun) != 4*time.Second {
			t.Errorf("after %s: %+v", time.Since(begun), r)
		}
		<-h.slots
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if r, err := s.Ask(ctx, &Question{Kind: Call}); r != nil || err != context.Canceled {
			t.Errorf("a caller who leaves: %+v, %v", r, err)
		}
		close(by.let)
		if r := ask(t, s, Question{}); r != nil || len(h.slots) != 0 {
			t.Errorf("afterwards: %+v, %d slots in use", r, len(h.slots))
		}
	})
}

// TestProgram asks programs.
func TestProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_TEST_SECRET", "of-the-gateway")
	as := func(how string, o Options) *Set {
		o.Command, o.Env = []string{self, "-x"}, []string{asHook + "=" + how, "GORACE=atexit_sleep_ms=0"}
		return set(t, o)
	}
	judge := as("judge", Options{})
	if r := ask(t, judge, Question{Arguments: json.RawMessage(`{"a":"` + strings.Repeat("usual ", 100_000) + `"}`)}); r != nil {
		t.Errorf("usual arguments: %+v", r)
	}
	if r := ask(t, judge, Question{Arguments: json.RawMessage(`{"a":"evil"}`)}); r == nil || r.Failed || r.Reason != "the arguments are evil" {
		t.Errorf("evil arguments: %+v", r)
	}
	if r := ask(t, as("environment", Options{}), Question{}); r == nil || r.Failed || strings.Contains(r.Reason, "of-the-gateway") || !strings.Contains(r.Reason, asHook) {
		t.Errorf("the environment of a program: %+v", r)
	}
	for _, how := range []string{"fail", "silent"} {
		if r := ask(t, as(how, Options{}), Question{}); r == nil || !r.Failed || strings.Contains(r.Reason, "model") {
			t.Errorf("%s: %+v", how, r)
		}
		if r := ask(t, as(how, Options{Open: true}), Question{}); r != nil {
			t.Errorf("%s with failure: allow: %+v", how, r)
		}
	}
	begun := time.Now()
	if r := ask(t, as("hang", Options{Timeout: 200 * time.Millisecond}), Question{}); r == nil || !r.Failed || r.Reason != "it did not answer in 200ms" || time.Since(begun) > 30*time.Second {
		t.Errorf("a program that hangs: %+v", r)
	}
	if r := ask(t, set(t, Options{Command: []string{self + "-missing"}}), Question{}); r == nil || !r.Failed {
		t.Errorf("a program that is not there: %+v", r)
	}
}

// The copies of a large question are counted while it is asked. Without room, nothing is asked.
func TestQuestionsAreCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 8 << 20, Wait: time.Millisecond})
	asked, held := 0, int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		held = pool.Usage().Memory
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"action":"allow"}`)
	}))
	defer server.Close()
	s := New([]Options{{Name: "one", URL: server.URL, OnCall: true, Timeout: time.Minute}}, bytes.Clone, slog.New(slog.DiscardHandler))
	defer s.Close()
	q := &Question{Kind: Call, Arguments: rawjson.Quote(strings.Repeat("x", 900<<10))}
	for _, full := range []bool{false, true} {
		ctx, scope := memory.WithScope(t.Context())
		scope.Count(pool, "principal ", "ann")
		if full {
			if err := memory.Take(ctx, 4<<20); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Ask(ctx, q)
		var why *memory.Error
		if errors.As(err, &why) != full || asked != 1 {
			t.Errorf("full: %t, asked %d times: %v", full, asked, err)
		}
		scope.End()
	}
	if held < int64(2*q.size()) || pool.Usage().Memory != 0 {
		t.Errorf("%d bytes were held, %+v", held, pool.Usage())
	}
}
