package streamable

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// An answer that cannot be read ends its call at once, with an error that no retry
// repeats, as JSON and as an event.
func TestClientAnswersThatCannotBeRead(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for _, tt := range []struct {
		name, kind, body string // ID stands for the call's id
		want             mcp.Kind
		text             string
	}{
		{"half a body", ContentJSON, `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"ty`, mcp.KindUpstreamProtocol, "cannot be read"},
		{"half a body without id", ContentJSON, `{"result":{"content":[{"ty`, mcp.KindUpstreamProtocol, "cannot be read"},
		{"a deep body", ContentJSON, `{"jsonrpc":"2.0","id":ID,"result":` + deep + strings.Repeat("]", 100_000) + `}`, mcp.KindUpstreamProtocol, "cannot be read"},
		{"no version", ContentJSON, `{"id":ID,"result":{}}`, mcp.KindUpstreamProtocol, `"jsonrpc" must be "2.0"`},
		{"a text", ContentJSON, `done`, mcp.KindUpstreamProtocol, "no response to it"},
		{"half an event", ContentSSE, "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"a\n\n", mcp.KindUpstreamProtocol, "cannot be read"},
		{"a deep event", ContentSSE, "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":" + deep + "\n\n", mcp.KindUpstreamProtocol, "cannot be read"},
		{"half an event at the end", ContentSSE, "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"resu", mcp.KindUpstreamProtocol, "breaks off"},
		{"half a notification at the end", ContentSSE, "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\",\"pa", mcp.KindUpstreamUnavailable, "before it answered"},
		{"other events, then nothing", ContentSSE, "data: nonsense\n\ndata: {\"level\":\"info\"}\n\n", mcp.KindUpstreamUnavailable, "before it answered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hold := make(chan struct{})
			f := &fake{call: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
				w.Header().Set("Content-Type", tt.kind)
				_, _ = io.WriteString(w, strings.ReplaceAll(tt.body, "ID", string(m.ID)))
				if tt.kind == ContentSSE && strings.HasSuffix(tt.body, "\n\n") && tt.want == mcp.KindUpstreamProtocol {
					_ = http.NewResponseController(w).Flush()
					select { // the stream stays open
					case <-hold:
					case <-r.Context().Done():
					}
				}
			}}
			defer close(hold)
			began := time.Now()
			_, err := dial(t, f, nil).Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x"}`), nil)
			if kindOf(err) != tt.want || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("err = %v (%s), want kind %s with %q", err, kindOf(err), tt.want, tt.text)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestClientTextThatIsNoUTF8(t *testing.T) {
	result := "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"text\":\"a\xffb\"}}"
	for name, tt := range map[string]struct{ kind, body string }{
		"a body":   {ContentJSON, result},
		"an event": {ContentSSE, "data: " + result + "\n\n"},
	} {
		f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			w.Header().Set("Content-Type", tt.kind)
			_, _ = io.WriteString(w, strings.ReplaceAll(tt.body, "ID", string(m.ID)))
		}}
		got, err := dial(t, f, nil).Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x"}`), nil)
		if err != nil || string(got) != `{"text":"a�b"}` {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "{\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+",\"error\":{\"code\":-1,\"message\":\"a\xff\"}}")
	}}
	_, err := dial(t, f, nil).Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x"}`), nil)
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Message != "a�" {
		t.Errorf("an error: %v", err)
	}
}
