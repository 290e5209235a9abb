package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// An answer that cannot be read fails the call that it is for, at once: the call
// would wait for its timeout otherwise. Other calls and what a server merely prints
// are not concerned.
func TestAnswersThatCannotBeRead(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for name, c := range map[string]struct {
		send   []string // ID stands for the call's id
		others int      // further calls in flight
		fails  bool
	}{
		"cut off":                    {[]string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te`}, 2, true},
		"cut off before its id":      {[]string{`{"result":{"content":[{"type":"te`}, 0, true},
		"of nobody":                  {[]string{`{"result":{"content":[{"type":"te`}, 1, false},
		"nested too deeply":          {[]string{`{"jsonrpc":"2.0","id":ID,"result":{"a":` + deep + strings.Repeat("]", 100_000) + `}}`}, 1, true},
		"nested, cut off":            {[]string{`{"jsonrpc":"2.0","id":ID,"result":` + deep}, 1, true},
		"id at the end":              {[]string{`{"result":{"a":` + deep + strings.Repeat("]", 100_000) + `},"jsonrpc":"2.0","id":ID}`}, 1, true},
		"no version":                 {[]string{`{"id":ID,"result":{}}`}, 1, true},
		"result and error":           {[]string{`{"jsonrpc":"2.0","id":ID,"result":{},"error":{}}`}, 1, true},
		"a comma too many":           {[]string{`{"jsonrpc":"2.0","id":ID,"result":{},}`}, 1, true},
		"two ids":                    {[]string{`{"jsonrpc":"2.0","id":ID,"id":7,"result":{}}`}, 1, false},
		"of another call":            {[]string{`{"jsonrpc":"2.0","id":77,"result":{`}, 0, false},
		"half a request":             {[]string{`{"jsonrpc":"2.0","id":ID,"method":"roots/list","par`}, 0, false},
		"half a notification":        {[]string{`{"jsonrpc":"2.0","method":"notifications/message","par`}, 0, false},
		"a line of a log":            {[]string{`{"level":"info","msg":"id 1"}`, `{"level":"warn","error":"disk full"}`, `{"error":{"code":1}}`, `{"result":"done"}`, "Listening on 1", `{"id"`, "[1,"}, 0, false},
		"twice, and the right after": {[]string{`{"jsonrpc":"2.0","id":ID,"result":{`, `{"jsonrpc":"2.0","id":ID,"result":{`, `{"jsonrpc":"2.0","id":ID,"result":{}}`}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := Pipe()
				var junk int
				conn := NewConn(near, ConnOptions{Client: true, Name: `upstream "x"`, Junk: func([]byte, error) { junk++ }})
				defer conn.Close()
				failed := make(chan error, 1+c.others)
				call := func() {
					_, err := conn.Call(t.Context(), "tools/call", nil, nil)
					failed <- err
				}
				for range c.others + 1 {
					go call()
				}
				var id jsonrpc.ID
				for range c.others + 1 {
					data, err := far.Read()
					if err != nil {
						t.Fatal(err)
					}
					m, err := jsonrpc.Parse(data)
					if err != nil {
						t.Fatal(err)
					}
					id = m.ID
				}
				for _, line := range c.send {
					if err := far.Write([]byte(strings.ReplaceAll(line, "ID", string(id)))); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				select {
				case err := <-failed:
					k, _ := KindOf(err)
					if !c.fails || k != KindUpstreamProtocol || !strings.Contains(err.Error(), `upstream "x" answered tools/call with a message that cannot be read`) {
						t.Errorf("the call ended with %v (%s)", err, k)
					}
				default:
					if c.fails {
						t.Error("the call waits")
					}
				}
				if calls, _ := conn.InFlight(); calls != c.others+b2i(!c.fails) {
					t.Errorf("%d calls are in flight", calls)
				}
				if !c.fails && junk != len(c.send) {
					t.Errorf("%d texts were taken for junk", junk)
				}
				if len(failed) > 0 {
					t.Errorf("another call ended with %v", <-failed)
				}
			})
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What a server sends that is no UTF-8 or half of a surrogate pair reaches callers as U+FFFD, in
// results, errors, notifications and requests.
func TestTextThatIsNoUTF8(t *testing.T) {
	near, far := Pipe()
	told := make(chan string, 8)
	conn := NewConn(near, ConnOptions{Client: true})
	defer conn.Close()
	type answer struct {
		result string
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		result, err := conn.Call(t.Context(), "tools/call", nil, HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
			told <- string(r.Params)
			return json.RawMessage("{}"), nil
		}))
		answers <- answer{string(result), err}
	}()
	if _, err := far.Read(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"a\xff\\ud83d\"}}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{\"x\":\"b\xc3\"}}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"c\xe4\xb8\"}]}}",
	} {
		if err := far.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	got := []string{<-told, <-told} // a request is served beside what follows it
	slices.Sort(got)
	if want := []string{`{"data":"a�\ufffd"}`, `{"x":"b�"}`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := <-answers; got.err != nil || got.result != `{"content":[{"type":"text","text":"c�"}]}` || !utf8.ValidString(got.result) {
		t.Errorf("got %q, %v", got.result, got.err)
	}
	go func() {
		_, err := conn.Call(t.Context(), "tools/call", nil, nil)
		answers <- answer{err: err}
	}()
	for { // the answer to sampling is on its way, too
		data, err := far.Read()
		if err != nil {
			t.Fatal(err)
		}
		if m, _ := jsonrpc.Parse(data); m.Method == "tools/call" {
			break
		}
	}
	if err := far.Write([]byte("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-1,\"message\":\"d\xfe\"}}")); err != nil {
		t.Fatal(err)
	}
	var wire *jsonrpc.Error
	if got := <-answers; !errors.As(got.err, &wire) || wire.Message != "d�" {
		t.Errorf("got %v", got.err)
	}
}
