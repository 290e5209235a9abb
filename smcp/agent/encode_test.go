package agent

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/smcp"
)

// TestEncode compares encode with encoding/json, by what a Computer reads and by the order of the
// members.
func TestEncode(t *testing.T) {
	version, args := "0.3", json.RawMessage(`{"n":12345678901234567890,"text":"<a> \u20ac"}`)
	for name, call := range map[string]smcp.ToolCall{
		"plain": {Call: smcp.Call{Agent: "a", ReqID: "r", Computer: "c"}, ToolName: "t", Params: args, Timeout: 60},
		"whole": {
			Call: smcp.Call{
				Agent: "a", RobotID: "a", ReqID: "r", Computer: "c", Version: &version,
				Traceparent: "00-1-2-01", Tracestate: "k=v", Baggage: "user=1",
			},
			ToolName: "t", Params: args, Timeout: 0.25,
		},
		"escapes": {Call: smcp.Call{Agent: "\"q\"\n<&>\u2028", ReqID: "\\", Computer: "\x00\x7f"}, ToolName: "t\xff", Params: json.RawMessage("null")},
	} {
		got, err := encode(&call)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := smcp.Encode(call)
		if err != nil {
			t.Fatal(err)
		}
		var a, b smcp.ToolCall
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatalf("%s: %v in %s", name, err, got)
		}
		if err := json.Unmarshal(want, &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(members(t, got), members(t, want)) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if _, err := encode(&smcp.ToolCall{ToolName: "t", Params: json.RawMessage(`{"a":`)}); err == nil || !strings.Contains(err.Error(), `"t"`) {
		t.Errorf("arguments that are no JSON: %v", err)
	}
}

// members returns the keys of an object, in order.
func members(t *testing.T, object []byte) (keys []string) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}
