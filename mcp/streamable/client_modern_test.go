package streamable

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestClientModernFrame(t *testing.T) {
	c, err := newClient(ClientOptions{URL: "http://h/", ClientInfo: json.RawMessage(`{"name":"me"}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.govern(mcp.V20260728)
	const (
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		info    = `"io.modelcontextprotocol/clientInfo":{"name":"me"}`
		caps    = `"io.modelcontextprotocol/clientCapabilities":{}`
		all     = version + "," + info + "," + caps
	)
	tests := []struct{ name, method, params, want, nameHeader string }{
		{"no params", "tools/list", ``, `{"_meta":{` + all + `}}`, ""},
		{"empty params", "tools/list", `{}`, `{"_meta":{` + all + `}}`, ""},
		{"spaced params", "tools/list", ` { } `, ` {"_meta":{` + all + `} } `, ""},
		{"params", "tools/call", `{"name":"a","arguments":{"_meta":1}}`, `{"_meta":{` + all + `},"name":"a","arguments":{"_meta":1}}`, "a"},
		{"empty _meta", "prompts/get", `{"_meta":{},"name":"p q"}`, `{"_meta":{` + all + `},"name":"p q"}`, "p q"},
		{"_meta", "resources/read", `{"uri":"file:///é", "_meta" : { "x":1 } }`, `{"uri":"file:///é", "_meta" : {` + all + `, "x":1 } }`, "=?base64?ZmlsZTovLy/DqQ==?="},
		{"token", "tools/call", `{"_meta":{"progressToken":"t","x":1},"name":" a"}`, `{"_meta":{` + all + `,"progressToken":9,"x":1},"name":" a"}`, "=?base64?IGE=?="},
		{
			"all there", "tools/call", `{"_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":{"name":"other"},` + caps + `},"name":"a"}`,
			`{"_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":{"name":"other"},` + caps + `},"name":"a"}`, "a",
		},
		{"some there", "x", `{"_meta":{` + caps + `}}`, `{"_meta":{` + version + `,` + info + `,` + caps + `}}`, ""},
		{"escaped name", "tools/call", `{"n\u0061me":"\u0061"}`, `{"_meta":{` + all + `},"n\u0061me":"\u0061"}`, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := c.frame("9", tt.method, json.RawMessage(tt.params))
			if err != nil {
				t.Fatal(err)
			}
			m, err := jsonrpc.Parse(out.body)
			if err != nil {
				t.Fatalf("%v: %s", err, out.body)
			}
			if got := strings.TrimSuffix(strings.SplitAfterN(string(out.body), `"params":`, 2)[1], "}"); got != tt.want || m.ID != "9" {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			h := out.header
			if h.Get(HeaderVersion) != mcp.V20260728 || h.Get(HeaderMethod) != tt.method || h.Get(HeaderName) != tt.nameHeader || h.Get(HeaderSession) != "" {
				t.Errorf("headers %v", h)
			}
		})
	}
	if h := c.wire.Load().post; h.Get(HeaderMethod) != "" {
		t.Error("the shared headers were changed")
	}
}

func TestClientModern(t *testing.T) {
	tool := must(ParseParamHeaders(json.RawMessage(`{"properties":{"city":{"type":"string","x-mcp-header":"City"}}}`)))
	ended := make(chan struct{})
	f := &fake{modern: true}
	f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
		switch m.Method {
		case "subscriptions/listen":
			send := events(w)
			send("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`)
			send("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`)
			<-r.Context().Done()
			close(ended)
		case "tools/call":
			meta, err := (&mcp.Request{Params: m.Params}).Fields().Meta()
			if err == nil {
				err = mcp.CheckModern(meta, r.Header.Get(HeaderVersion))
			}
			if err == nil {
				err = tool.Check(r.Header, m.Params)
			}
			if err != nil {
				w.Header().Set("Content-Type", ContentJSON)
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, mcp.WireError(err, mcp.V20260728)))
				return
			}
			writeJSON(w, []byte(result(m, `{"resultType":"complete"}`)))
		}
	}
	c := dial(t, f, func(o *ClientOptions) {
		o.ProtocolVersion = mcp.V20260728
		o.ParamHeaders = func(name string, params json.RawMessage, h http.Header) {
			if name == "weather" {
				tool.Set(h, params)
			}
		}
	})
	if h := c.Hello(); !h.Modern || h.Version != mcp.V20260728 {
		t.Fatalf("hello %+v", h)
	}
	if got, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"weather","arguments":{"city":"Köln"}}`), nil); err != nil || string(got) != `{"resultType":"complete"}` {
		t.Errorf("got %s, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	back := &recorder{}
	wg.Go(func() {
		if _, err := c.Call(ctx, "subscriptions/listen", json.RawMessage(`{"notifications":{"toolsListChanged":true}}`), back); err != context.Canceled {
			t.Errorf("err = %v", err)
		}
	})
	back.waitFor(t, "tools/list_changed")
	cancel()
	wg.Wait()
	<-ended
	if got := strings.Join(back.all(), "|"); got != "subscriptions/acknowledged {}|tools/list_changed {}" {
		t.Errorf("got %q", got)
	}
	c.Close()
	for _, s := range f.seen() {
		if strings.HasPrefix(s, "GET") || strings.HasPrefix(s, "DELETE") || strings.Contains(s, "initialize") {
			t.Errorf("a modern server saw %s", s)
		}
	}
}

func TestClientFallsBackToModern(t *testing.T) {
	c := dial(t, &fake{modern: true}, nil)
	if h := c.Hello(); !h.Modern {
		t.Errorf("hello %+v", h)
	}
}

func TestParamHeaders(t *testing.T) {
	schema := `{"type":"object","properties":{
		"s":{"type":"string","x-mcp-header":"text"},
		"i":{"x-mcp-header":"Num","type":"integer"},
		"b":{"type":"boolean","x-mcp-header":"Flag"},
		"plain":{"type":"string"},
		"o":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}`
	p, err := ParseParamHeaders(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, arguments, want string }{
		{"all", `{"s":"a b","i":42,"b":true,"plain":"x","o":{"deep":"d"}}`, "Deep=d Flag=true Num=42 Text=a b"},
		{"encoded", `{"s":"ü"}`, "Text==?base64?w7w=?="},
		{"absent and null", `{"s":null,"o":{}}`, ""},
		{"other types", `{"s":["x"],"i":1.5,"b":{}}`, ""},
		{"numbers", `{"i":4.2e1}`, "Num=42"},
		{"minus zero", `{"i":-0}`, "Num=0"},
		{"too large to be exact", `{"i":9007199254740993}`, ""},
		{"empty text", `{"s":""}`, "Text="},
		{"no object", `4`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			params := json.RawMessage(`{"name":"t","arguments":` + tt.arguments + `}`)
			h := http.Header{}
			p.Set(h, params)
			var got []string
			for _, name := range []string{"Deep", "Flag", "Num", "Text"} {
				if v := h.Values(HeaderParamPrefix + name); len(v) > 0 {
					got = append(got, name+"="+v[0])
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if err := p.Check(h, params); err != nil {
				t.Errorf("its own headers are refused: %v", err)
			}
		})
	}
	mismatches := []struct{ name, header, value, arguments string }{
		{"missing", "", "", `{"s":"a"}`},
		{"other text", "Mcp-Param-Text", "b", `{"s":"a"}`},
		{"other number", "Mcp-Param-Num", "41", `{"i":42}`},
		{"no number", "Mcp-Param-Num", "forty-two", `{"i":42}`},
		{"absent argument", "Mcp-Param-Text", "a", `{}`},
		{"bad base64", "Mcp-Param-Text", "=?base64?%?=", `{"s":"a"}`},
		{"text that looks like a number", "Mcp-Param-Text", "42.0", `{"s":"42"}`},
	}
	for _, tt := range mismatches {
		t.Run("mismatch/"+tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.header != "" {
				h.Set(tt.header, tt.value)
			}
			err := p.Check(h, json.RawMessage(`{"arguments":`+tt.arguments+`}`))
			if kindOf(err) != mcp.KindHeaderMismatch {
				t.Errorf("err = %v", err)
			}
		})
	}
	h := http.Header{"Mcp-Param-Num": {"42.0"}}
	if err := p.Check(h, json.RawMessage(`{"arguments":{"i":42}}`)); err != nil {
		t.Errorf("42.0 is 42: %v", err)
	}
	for name, schema := range map[string]string{
		"an object":  `{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`,
		"a number":   `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		"no type":    `{"properties":{"a":{"x-mcp-header":"A"}}}`,
		"no name":    `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		"no text":    `{"properties":{"a":{"type":"string","x-mcp-header":1}}}`,
		"no token":   `{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB: c"}}}`,
		"twice":      `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}}}`,
		"not JSON":   `{"properties":{"x-mcp-header"`,
		"bad inside": `{"properties":{"a":{"x-mcp-header":"A","x-mcp-header":"B"}}}`,
	} {
		if p, err := ParseParamHeaders(json.RawMessage(schema)); name != "not JSON" && err == nil {
			t.Errorf("%s: got %v", name, p)
		}
	}
}

func FuzzClientFrame(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : 1 , "_meta" : { } } `, `{"_meta":{"progressToken":"x","y":[1]},"name":"n"}`, `{"_meta":{"io.modelcontextprotocol/clientInfo":null}}`, `{"_meta":4}`, `[1]`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	c, err := newClient(ClientOptions{URL: "http://h/"})
	if err != nil {
		f.Fatal(err)
	}
	defer c.Close()
	// flat lists the members of params and of its _meta, but for those that the
	// client may set.
	flat := func(params []byte) (out []string) {
		_ = rawjson.EachMember(params, func(m rawjson.Member) bool {
			if string(m.Key) != "_meta" {
				out = append(out, string(m.Key)+"="+string(m.Value))
				return true
			}
			_ = rawjson.EachMember(m.Value, func(m rawjson.Member) bool {
				if k := string(m.Key); k != "progressToken" && k != modernKeys[0] && k != modernKeys[1] && k != modernKeys[2] {
					out = append(out, "_meta."+k+"="+string(m.Value))
				}
				return true
			})
			return true
		})
		return out
	}
	f.Fuzz(func(t *testing.T, params []byte, modern bool) {
		if rawjson.Valid(params) != nil {
			return
		}
		c.govern(map[bool]string{true: mcp.V20260728, false: mcp.V20251125}[modern])
		out, err := c.frame("31", "tools/call", params)
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(out.body)
		if err != nil {
			if rawjson.IsObject(params) {
				t.Fatalf("%q became %q: %v", params, out.body, err)
			}
			return
		}
		if got, want := strings.Join(flat(m.Params), "\n"), strings.Join(flat(params), "\n"); got != want {
			t.Fatalf("%q became %q", params, m.Params)
		}
		meta, err := (&mcp.Request{Params: m.Params}).Fields().Meta()
		if err != nil {
			return // a _meta that is no object passes to a legacy server as it is
		}
		if (out.token != nil) != (meta.ProgressToken != nil) || (out.token != nil && string(meta.ProgressToken) != "31") {
			t.Fatalf("token %q of %q became %q", out.token, params, m.Params)
		}
		if modern && (meta.Version == "" || meta.ClientCapabilities == nil) && !strings.Contains(string(params), "io.model") && !strings.Contains(string(params), `\u`) {
			t.Fatalf("%q became %q", params, m.Params)
		}
	})
}
