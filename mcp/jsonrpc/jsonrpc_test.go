package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Message
		kind     Kind
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":1}}`, Message{ID: "1", Method: "tools/call", Params: []byte(`{"a":1}`)}, Request},
		{"large id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, Message{ID: "9007199254740993", Method: "ping"}, Request},
		{"fraction id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, Message{ID: "1.5", Method: "ping"}, Request},
		{"string id", `{"id":"a\u0062","jsonrpc":"2.0","method":"ping"}`, Message{ID: `"a\u0062"`, Method: "ping"}, Request},
		{"notification", ` {"jsonrpc" : "2.0" , "method" : "x/y" } `, Message{Method: "x/y"}, Notification},
		{"null params", `{"jsonrpc":"2.0","method":"x","params":null}`, Message{Method: "x"}, Notification},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890}}`, Message{ID: "1", Result: []byte(`{"n":12345678901234567890}`)}, Response},
		{"null result", `{"jsonrpc":"2.0","id":1,"result":null}`, Message{ID: "1", Result: []byte(`null`)}, Response},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`, Message{ID: "1", Err: []byte(`{"code":-1,"message":"m"}`)}, ErrorResponse},
		{"error without id", `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`, Message{Err: []byte(`{"code":-1,"message":"m"}`)}, ErrorResponse},
		{"a response with a key in another case", `{"jsonrpc":"2.0","id":1,"result":{},"Error":null}`, Message{ID: "1", Result: []byte(`{}`)}, Response},
		{"keys that nobody knows", `{"jsonrpc":"2.0","id":1,"method":"ping","methods":1,"I":2,"` + strings.Repeat("K", 99) + `":3}`, Message{ID: "1", Method: "ping"}, Request},
		{"escaped key", `{"jsonrpc":"2.0","id":1,"\u006dethod":"ping"}`, Message{ID: "1", Method: "ping"}, Request},
		{"escaped method", `{"jsonrpc":"2.0","id":1,"method":"p\u0069ng"}`, Message{ID: "1", Method: "ping"}, Request},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if m.ID != c.want.ID || m.Method != c.want.Method || !bytes.Equal(m.Params, c.want.Params) ||
				!bytes.Equal(m.Result, c.want.Result) || !bytes.Equal(m.Err, c.want.Err) {
				t.Errorf("got %+v, want %+v", m, c.want)
			}
			if m.Kind() != c.kind {
				t.Errorf("kind %d, want %d", m.Kind(), c.kind)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for _, c := range []struct {
		name, in string
		want     error
		id       ID // the id that the answer can bear
	}{
		{"empty", ``, ErrParse, ""},
		{"not JSON", `hello`, ErrParse, ""},
		{"cut", `{"jsonrpc":"2.0","id":1`, ErrParse, ""},
		{"text behind", `{"jsonrpc":"2.0","id":1,"method":"m"} x`, ErrParse, ""},
		{"control character", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}", ErrParse, ""},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"m","params":` + deep + `}`, ErrParse, ""},
		{"a number", `5`, ErrInvalid, ""},
		{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, ErrInvalid, ""},
		{"duplicate by escape", `{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}`, ErrInvalid, ""},
		{"duplicate id", `{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, ErrInvalid, ""},
		{"duplicate params", `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}`, ErrInvalid, ""},
		{"a method in another case", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, ErrInvalid, "1"},
		{"a method in another case alone", `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","result":{}}`, ErrInvalid, "1"},
		{"a method in another case, escaped", `{"jsonrpc":"2.0","id":1,"method":"ping","\u004dethod":"tools/call"}`, ErrInvalid, "1"},
		{"params in another case", `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"Params":{}}`, ErrInvalid, "1"},
		{"params with a long s", `{"jsonrpc":"2.0","id":1,"method":"a","paramſ":{}}`, ErrInvalid, "1"},
		{"an id in another case", `{"jsonrpc":"2.0","id":1,"Id":2,"method":"a"}`, ErrInvalid, ""},
		{"an id in another case alone", `{"jsonrpc":"2.0","ID":2,"method":"a"}`, ErrInvalid, ""},
		{"no version", `{"id":1,"method":"a"}`, ErrInvalid, "1"},
		{"version 1", `{"jsonrpc":"1.0","id":1,"method":"a"}`, ErrInvalid, "1"},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"a"}`, ErrInvalid, ""},
		{"bool id", `{"jsonrpc":"2.0","id":true,"method":"a"}`, ErrInvalid, ""},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"a"}`, ErrInvalid, ""},
		{"long id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `","method":"a"}`, ErrInvalid, ""},
		{"number method", `{"jsonrpc":"2.0","id":1,"method":5}`, ErrInvalid, "1"},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, ErrInvalid, "1"},
		{"string params", `{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}`, ErrInvalid, "1"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, ErrInvalid, "1"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, ErrInvalid, "1"},
		{"nothing", `{"jsonrpc":"2.0","id":1}`, ErrInvalid, "1"},
		{"string error", `{"jsonrpc":"2.0","id":1,"error":"x"}`, ErrInvalid, "1"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, ErrInvalid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse([]byte(c.in))
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if m.ID != c.id {
				t.Errorf("id %q, want %q", m.ID, c.id)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in    string
		n     int
		batch bool
		err   error
	}{
		{`{"a":1}`, 1, false, nil},
		{` [{"a":1}, {"b":2}] `, 2, true, nil},
		{`[]`, 0, true, ErrInvalid},
		{`[1,`, 0, true, ErrParse},
		{`[` + strings.Repeat("1,", 300) + `1]`, 0, true, ErrInvalid},
	} {
		msgs, batch, err := Split([]byte(c.in))
		if len(msgs) != c.n || batch != c.batch || !errors.Is(err, c.err) {
			t.Errorf("Split(%.20s) = %d messages, %v, %v", c.in, len(msgs), batch, err)
		}
	}
}

// Errors of an upstream pass through with every byte they came with.
func TestErrorKeepsBytes(t *testing.T) {
	raw := `{"message":"m","code":-32042,"data":{"n":12345678901234567890},"extra":[1]}`
	e := ParseError([]byte(raw))
	if e.Code != -32042 || e.Message != "m" || string(e.Data) != `{"n":12345678901234567890}` {
		t.Errorf("parsed %+v", e)
	}
	if got := string(AppendError(nil, "7", e)); got != `{"jsonrpc":"2.0","id":7,"error":`+raw+`}` {
		t.Errorf("written back as %s", got)
	}
	if got := string(AppendError(nil, "", &Error{Code: -1, Message: "a\"b"})); got != `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"a\"b"}}` {
		t.Errorf("written as %s", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2,{"b":"\ud800"}]}}`, `{"jsonrpc":"2.0","id":"x","result":null}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1}}`, `[1]`, `{"a":1e400}`, "{\"\u00e9\":0}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted invalid JSON %q", data)
		}
		var out []byte
		switch m.Kind() {
		case Request:
			out = AppendRequest(nil, m.ID, m.Method, m.Params)
		case Notification:
			out = AppendNotification(nil, m.Method, m.Params)
		case Response:
			out = AppendResult(nil, m.ID, m.Result)
		case ErrorResponse:
			out = AppendError(nil, m.ID, ParseError(m.Err))
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("written %q: %v", out, err)
		}
		if again.ID != m.ID || again.Method != m.Method || !bytes.Equal(again.Params, m.Params) ||
			!bytes.Equal(again.Result, m.Result) || !bytes.Equal(again.Err, m.Err) {
			t.Fatalf("%q became %q", data, out)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		in := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", size) + `"}}}`)
		b.Run(map[int]string{100: "100B", 100_000: "100KB"}[size], func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
