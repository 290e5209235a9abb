package trace

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// TestEdit: the context joins params._meta, wherever that is, and the rest keeps every byte.
func TestEdit(t *testing.T) {
	s := &span{state: "a=1"}
	parent := `"traceparent":"` + s.traceparent() + `","tracestate":"a=1"`
	for message, want := range map[string]string{
		`{"id":1}`:             `{"id":1,"params":{"_meta":{C}}}`,
		`{"params": { } }`:     `{"params": {"_meta":{C} } }`,
		`{"params":{"a": 1 }}`: `{"params":{"a": 1,"_meta":{C} }}`,
		`{"params":{"_meta":{ "k" : 2 },"a":1},"id":1}`:                         `{"params":{"_meta":{ "k" : 2,C },"a":1},"id":1}`,
		`{"params":{"a":"}","_meta":{"tracestate":"b=2","traceparent":"old"}}}`: `{"params":{"a":"}","_meta":{"tracestate":"a=1","traceparent":"` + s.traceparent() + `"}}}`,
		`{"params":{"_meta":{"a":1},"_meta":{}}}`:                               `{"params":{"_meta":{"a":1},"_meta":{}}}`,
		`{"params":[1]}`:              `{"params":[1]}`,
		`{"params":{"_meta":"text"}}`: `{"params":{"_meta":"text"}}`,
	} {
		e := s.edit([]byte(message))
		got := string(e.Append(nil, []byte(message)))
		if want = strings.Replace(want, "C", parent, 1); got != want || len(got) != len(message)+e.Grows() {
			t.Errorf("%s\n got %s\nwant %s", message, got, want)
		}
		if err := rawjson.Valid([]byte(got)); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	if e := s.edit([]byte(`{"params":{"_meta":{"k":"` + strings.Repeat("x", maxLook) + `"}}}`)); e.Text != nil {
		t.Errorf("a large _meta is copied: %d bytes", len(e.Text))
	}
}

// TestForwardCopiesNoMessage: the span of a large request takes no memory of its size.
func TestForwardCopiesNoMessage(t *testing.T) {
	x := newTraced(t, 1)
	message := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"text":"` + strings.Repeat("x", 2<<20) + `"},"_meta":{}}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, e := x.Forward(func() Server { return Server{Name: "files"} }, "tools/call", http.Header{}, message)
	runtime.ReadMemStats(&after)
	if f.Traceparent() == "" || e.Grows() < 50 {
		t.Fatalf("no context: %+v", e)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<18 {
		t.Errorf("%d bytes for a message of %d", took, len(message))
	}
	f.End(nil)
}
