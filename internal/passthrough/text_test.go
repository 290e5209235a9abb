package passthrough_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/passthrough"
)

// What an upstream sends that is no UTF-8 does not reach agents, however long it is
// and however it is cut.
func TestForwardedTextIsUTF8(t *testing.T) {
	long := strings.Repeat("中", 200_000)
	for name, c := range map[string]struct {
		kind   string
		pieces []string
		want   string
	}{
		"a short answer":        {"application/json", []string{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"b\xff\"}}"}, `{"jsonrpc":"2.0","id":1,"result":{"a":"b�"}}`},
		"a valid answer":        {"application/json", []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"é"}}`}, `{"jsonrpc":"2.0","id":1,"result":{"a":"é"}}`},
		"a long answer":         {"application/json", []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"` + long + "\xc3" + long + `"}}`}, `{"jsonrpc":"2.0","id":1,"result":{"a":"` + long + "�" + long + `"}}`},
		"half a pair":           {"application/json", []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d","b":"\ud83d\ude00\\ud83d"}}`}, `{"jsonrpc":"2.0","id":1,"result":{"a":"\ufffd","b":"\ud83d\ude00\\ud83d"}}`},
		"half a pair at length": {"application/json", []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"` + long + `\ud83d` + long + `"}}`}, `{"jsonrpc":"2.0","id":1,"result":{"a":"` + long + `\ufffd` + long + `"}}`},
		"half a pair in events": {"text/event-stream", []string{`data: {"jsonrpc":"2.0","id":1,"result":{"a":"\ud8`, `3d\ude00\ud83d`, "\"}}\n\n"}, `data: {"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d\ude00\ufffd"}}` + "\n\n"},
		"events": {"text/event-stream", []string{"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"é\xe4\xb8", "\xad\xf0\x9f", "\xff\"}}\n", "\n"},
			"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"é中��\"}}\n\n"},
	} {
		for _, announce := range []bool{false, true} {
			e := inFront(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				if all := strings.Join(c.pieces, ""); announce && c.kind == "application/json" {
					w.Header().Set("Content-Length", strconv.Itoa(len(all)))
				}
				for _, p := range c.pieces {
					_, _ = io.WriteString(w, p)
					_ = http.NewResponseController(w).Flush()
				}
			}, nil)
			res := e.post(mcpPath, initRequest)
			if res.status != 200 || !utf8.ValidString(res.body) || res.body != c.want && strings.ReplaceAll(res.body, "��", "�") != strings.ReplaceAll(c.want, "��", "�") {
				t.Errorf("%s, announced %v: %d, %d bytes: %.200q", name, announce, res.status, len(res.body), res.body)
			}
		}
	}
}

// Half a message is told as such, where weir has all of it before it answers.
func TestForwardedHalf(t *testing.T) {
	for _, answer := range []string{`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"te`, `"done"`, `[{"jsonrpc":"2.0","id":1,"result":{}}`, "{", "null"} {
		e := inFront(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}, nil)
		if res := e.post(mcpPath, initRequest); res.status != 502 || !strings.Contains(res.body, `"id":1,"error":{"code":-32603`) || !strings.Contains(res.body, "upstream_protocol") {
			t.Errorf("%s: %d %s", answer, res.status, res.body)
		}
	}
}

// The result of a tool has content, also where messages are forwarded.
func TestForwardedResultHasContent(t *testing.T) {
	for answer, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{}}`:                                            `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`,
		`{"result":{"structuredContent":{"a":1.50}},"jsonrpc":"2.0","id":7,"x":1}`:        `{"result":{"structuredContent":{"a":1.50},"content":[]},"jsonrpc":"2.0","id":7,"x":1}`,
		`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`:                                `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"task":{"taskId":"1"}}}`:                       `{"jsonrpc":"2.0","id":7,"result":{"task":{"taskId":"1"}}}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m"}}`:                      `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"isError":true,"_meta":{"big":1e999}}}` + "\n": `{"jsonrpc":"2.0","id":7,"result":{"isError":true,"_meta":{"big":1e999},"content":[]}}`,
	} {
		e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Header.Get("Mcp-Session-Id") == "" {
				w.Header().Set("Mcp-Session-Id", "s-1")
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
			_, _ = io.WriteString(w, answer)
		}, func(*passthrough.Target, *passthrough.Options) {})
		if res := e.post(mcpPath, initRequest); res.status != 200 {
			t.Fatal(res.status, res.body)
		}
		if res := e.post(mcpPath, call("add"), "Mcp-Session-Id", "s-1"); res.status != 200 || res.body != want {
			t.Errorf("%s became %s", answer, res.body)
		}
	}
}
