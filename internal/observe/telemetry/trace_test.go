package telemetry

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

func TestWithTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	long := strings.Repeat("k=v,", 2100)
	for _, c := range []struct{ name, parent, state, id, params, want, baggage string }{
		{"none", "", "", "1", `{"a":1}`, `{"a":1}`, ""},
		{"both", parent, "v=1", "1", `{"a":1}`, `{"a":1,"_meta":{"traceparent":"` + parent + `","tracestate":"v=1"}}`, ""},
		{"no params", parent, "", "1", ``, `{"_meta":{"traceparent":"` + parent + `"}}`, ""},
		{"beside others", parent, "", "1", `{"_meta":{"progressToken":12345678901234567890}}`, `{"_meta":{"progressToken":12345678901234567890,"traceparent":"` + parent + `"}}`, ""},
		{"there already", parent, "", "1", `{"_meta":{"traceparent":"own"}}`, `{"_meta":{"traceparent":"own"}}`, ""},
		{"no trace", "00-xyz", "", "1", `{"a":1}`, `{"a":1}`, ""},
		{"a notification", parent, "", "", `{"a":1}`, `{"a":1}`, "k=v"},
		{"baggage", parent, "v=1", "1", `{"a":1}`, `{"a":1,"_meta":{"traceparent":"` + parent + `","tracestate":"v=1","baggage":"user=alice;p=1,n=%22"}}`, "user=alice;p=1,n=%22"},
		{"baggage alone", "", "", "1", `{"a":1}`, `{"a":1,"_meta":{"baggage":"k=v"}}`, "k=v"},
		{"own trace, the header's baggage", parent, "", "1", `{"_meta":{"traceparent":"own"}}`, `{"_meta":{"traceparent":"own","baggage":"k=v"}}`, "k=v"},
		{"own baggage", parent, "", "1", `{"_meta":{"baggage":"own"}}`, `{"_meta":{"baggage":"own","traceparent":"` + parent + `"}}`, "k=v"},
		{"too much baggage", "", "", "1", `{"a":1}`, `{"a":1}`, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			for name, value := range map[string]string{"Traceparent": c.parent, "Tracestate": c.state, "Baggage": c.baggage} {
				if value != "" {
					h.Set(name, value)
				}
			}
			r := &mcp.Request{Method: "tools/call", Params: json.RawMessage(c.params), Session: mcp.NewSession("", "p"), Peer: mcp.NoPeer}
			if c.id != "" {
				r.ID = "1"
			}
			if got := string(WithTrace(r, h).Params); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
			if string(r.Params) != c.params {
				t.Errorf("the caller's params became %s", r.Params)
			}
		})
	}
}
