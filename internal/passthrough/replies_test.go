package passthrough

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// told is a Recorded that says what it was told.
type told struct {
	said   []string
	pieces *bytes.Buffer // nil: nothing needs the result
}

// Ended implements Recorded.
func (r *told) Ended(result json.RawMessage, err error) {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		err = fmt.Errorf("code %d", wire.Code)
	}
	r.said = append(r.said, fmt.Sprintf("%s %v", result, err))
}

// Pieces implements Recorded.
func (r *told) Pieces() io.Writer {
	if r.pieces == nil {
		return nil
	}
	r.pieces.Reset() // another result
	return r.pieces
}

// Passed implements Recorded.
func (r *told) Passed() { r.said = append(r.said, "passed") }

// Unread implements Recorded.
func (r *told) Unread() { r.said = append(r.said, "unread") }

// feedIn calls f for parts of data, of a length each.
func feedIn(data []byte, size int, f func(p []byte)) {
	for part := range slices.Chunk(data, size) {
		f(part)
	}
}

var longAnswers = []string{
	`{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"result":2}],"b":"}\\\"]{","c":"\\"}}`,
	` { "jsonrpc" : "2.0" , "result" : { "x" : 1 } , "id" : "r" } `,
	`{"jsonrpc":"2.0","id":1,"result":"text \\"}`, `{"jsonrpc":"2.0","id":1,"result":12 }`, `{"jsonrpc":"2.0","result":null,"id":1}`,
	`{"jsonrpc":"2.0","id":1,"result":[],"more":{"error":{}}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"\"}"}}`,
	`{"jsonrpc":"2.0","id":"\"result\":","result":{}}`, `{"jsonrpc":"2.0","method":"x","params":{"result":{}}}`, `{"jsonrpc":"2.0","id":1,"result":{`,
	`{"results":1,"resul":2,"jsonrpc":"2.0","id":1,"result":{"é":"\u00e9"}}`, `[{"jsonrpc":"2.0","id":1,"result":{}}]`, `{}`, ``,
}

// FuzzLongAnswer: a message in pieces of any size has the outcome and the result that it has as a
// whole.
func FuzzLongAnswer(f *testing.F) {
	for _, text := range longAnswers {
		for _, size := range []int{1, 2, 3, 1000} {
			f.Add([]byte(text), size)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		m, err := jsonrpc.Parse(data)
		if err != nil || size < 1 || strangeKey(data) {
			return
		}
		whole, parts := &told{}, &told{pieces: &bytes.Buffer{}}
		short := replies{open: []recordedID{{m.ID, whole}}}
		short.message(data)
		short.end(nil)
		long := replies{open: []recordedID{{m.ID, parts}}}
		long.long = longAnswer{of: parts}
		feedIn(data, size, long.long.feed)
		long.longEnd()
		long.end(nil)
		want := whole.said
		if m.Method == "" && m.Err == nil && m.Result != nil {
			want = []string{"passed"}
			if got := parts.pieces.String(); got != string(m.Result) {
				t.Errorf("result %q, want %q", got, m.Result)
			}
		}
		if !slices.Equal(parts.said, want) {
			t.Errorf("%q in parts of %d: %q, want %q", data, size, parts.said, want)
		}
	})
}

// strangeKey reports whether a key of a message is written with escapes, or differs from one of the
// envelope in case. In a long message, readers may differ about it.
func strangeKey(data []byte) bool {
	strange := false
	_ = rawjson.EachMember(data, func(m rawjson.Member) bool {
		for _, key := range []string{"id", "method", "result", "error"} {
			strange = strange || string(m.Key) != key && strings.EqualFold(string(m.Key), key)
		}
		return true
	})
	var m map[string]json.RawMessage
	if strange || json.Unmarshal(data, &m) != nil {
		return true
	}
	for key := range m {
		if !bytes.Contains(data, []byte(`"`+key+`"`)) {
			return true
		}
	}
	return false
}

// TestReplies: answers in events, in batches and in pieces, and requests without one.
func TestReplies(t *testing.T) {
	result := func(id int, size int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"x":%q}}`, id, strings.Repeat("y", size))
	}
	const noID = `{"jsonrpc":"2.0","error":{"code":-7,"message":"x"}}`
	longID := func(id string) string { // after the result
		return `{"jsonrpc":"2.0","result":{"x":"` + strings.Repeat("y", 2*maxAnswer) + `"},"id":` + id + `}`
	}
	for _, c := range []struct {
		name   string
		stream bool
		batch  bool
		data   string
		want   []string // of the requests 1 and 2, cut
	}{
		{"one", false, false, result(1, 3), []string{`{"x":"yyy"} <nil>`}},
		{"long", false, false, result(1, 2*maxAnswer), []string{"passed"}},
		{"long notification", true, false, "data: " + `{"jsonrpc":"2.0","method":"m","params":{"x":"` + strings.Repeat("y", 2*maxAnswer) + "\"}}\n\ndata: " + result(1, 3) + "\n\n", []string{`{"x":"yyy"} <nil>`}},
		{"broken", false, false, `{"jsonrpc":"2.0","id":1,"result":{`, []string{" no answer"}},
		{"long and broken", false, false, result(1, 2*maxAnswer)[:2*maxAnswer], []string{" no answer"}},
		{"events", true, false, "data: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\r\rdata: " + result(1, 3) + "\r\r", []string{`{"x":"yyy"} <nil>`}},
		{"lines", true, false, "event: message\ndatum: x\ndata:{\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\ndata:\ndata: \"result\":{}}\r\n\r\n", []string{"{} <nil>"}},
		{"half an event", true, false, "data: " + result(1, 3) + "\n", []string{" no answer"}},
		{"batch", false, true, "[" + result(2, 1) + "," + result(1, 2) + "]", []string{`{"x":"yy"} <nil>`, `{"x":"y"} <nil>`}},
		{"batch in events", true, true, "data: " + result(2, 1) + "\n\ndata: [" + result(1, 2) + "]\n\n", []string{`{"x":"yy"} <nil>`, `{"x":"y"} <nil>`}},
		{"half a batch", false, true, "[" + result(2, 1) + "]", []string{" no answer", `{"x":"y"} <nil>`}},
		{"another's answer first", true, false, "data: " + result(99, 3) + "\n\ndata: " + result(1, 1) + "\n\n", []string{`{"x":"y"} <nil>`}},
		{"another's error first", true, false, "data: {\"jsonrpc\":\"2.0\",\"id\":99,\"error\":{\"code\":-1,\"message\":\"\"}}\n\ndata: " + result(1, 1) + "\n\n", []string{`{"x":"y"} <nil>`}},
		{"another's long answer first", true, false, "data: " + result(99, 2*maxAnswer+1) + "\n\ndata: " + result(1, 2*maxAnswer) + "\n\n", []string{"passed"}},
		{"another's answer only", false, false, result(99, 3), []string{"unread"}},
		{"another's long answer only", false, false, result(99, 2*maxAnswer), []string{"unread"}},
		{"error without id", false, false, noID, []string{" code -7"}},
		{"error without id first", true, false, "data: " + noID + "\n\ndata: " + result(1, 1) + "\n\n", []string{`{"x":"y"} <nil>`}},
		{"long error without id", false, false, strings.Replace(noID, "{", "{"+strings.Repeat(" ", 2*maxAnswer), 1), []string{" code -7"}},
		{"error to a batch", false, true, noID, []string{" code -7", " code -7"}},
		{"id as text", false, false, strings.Replace(result(1, 1), ":1,", `:"1",`, 1), []string{"unread"}},
		{"id as text, long", false, false, strings.Replace(result(1, 2*maxAnswer), ":1,", `:"1",`, 1), []string{"unread"}},
		{"id with a fraction", false, false, strings.Replace(result(1, 1), ":1,", `:1.0,`, 1), []string{`{"x":"y"} <nil>`}},
		{"id after a long result", false, false, longID("1"), []string{"passed"}},
		{"another id after a long result", false, false, longID("99"), []string{"unread"}},
		{"two ids of a long result", false, false, longID(`1,"id":99`), []string{"unread"}},
		{"byte order mark", true, false, "\xef\xbb\xbfdata: " + result(1, 1) + "\n\n", []string{`{"x":"y"} <nil>`}},
		{"half a byte order mark", true, false, "\xef\xbbdata: x\ndata: " + result(1, 1) + "\n\n", []string{`{"x":"y"} <nil>`}},
		{"a key twice", true, false, `data: {"jsonrpc":"2.0","id":1,"result":{},"result":{"x":1}}` + "\n\n", []string{"unread"}},
		{"a key twice, long", false, false, longID(`1,"result":{}`), []string{"unread"}},
		{"a key in another case", false, false, `{"jsonrpc":"2.0","id":1,"Result":{}}`, []string{"unread"}},
		{"a key in another case, long", false, false, strings.Replace(longID("1"), "result", "Reſult", 1), []string{"unread"}},
		{"a key with escapes, long", false, false, strings.Replace(longID("1"), "result", `re\u0073ult`, 1), []string{"unread"}},
		{"no JSON but NaN", false, false, `{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}`, []string{"unread"}},
		{"a batch that cannot be read", false, true, "\xef\xbb\xbf[" + result(1, 1) + "]", []string{"unread", "unread"}},
		{"long batch", false, true, "[" + result(2, 1) + "," + result(1, maxBatchAnswer) + "]", []string{"unread", "unread"}},
	} {
		for _, size := range []int{1, 7, 64 << 10, 1 << 20} {
			a := replies{batch: c.batch}
			requests := []*told{{pieces: &bytes.Buffer{}}, {pieces: &bytes.Buffer{}}}
			for i := range c.want {
				a.open = append(a.open, recordedID{jsonrpc.ID(fmt.Sprint(i + 1)), requests[i]})
			}
			if c.stream {
				s := eventData{add: a.add, finish: a.finish}
				feedIn([]byte(c.data), size, s.feed)
			} else {
				feedIn([]byte(c.data), size, a.add)
				a.finish()
			}
			a.end(errors.New("no answer"))
			for i, want := range c.want {
				if got := strings.Join(requests[i].said, ", "); got != want {
					t.Errorf("%s, parts of %d: request %d: %.80q, want %.80q", c.name, size, i+1, got, want)
				}
				if want == "passed" && requests[i].pieces.Len() != len(result(1, 2*maxAnswer))-len(`{"jsonrpc":"2.0","id":1,"result":}`) {
					t.Errorf("%s, parts of %d: %d bytes of the result", c.name, size, requests[i].pieces.Len())
				}
			}
		}
	}
}
