package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// askPerson has a person answer the question about a direct call of "drop", and returns
// the question and the error of the call.
func askPerson(t *testing.T, o metatool.Options, params, answer string) (message string, schema json.RawMessage, err error) {
	t.Helper()
	o.Policy = &dispatch.Policy{Default: dispatch.RequireApproval}
	h := metatooltest.New(t, o)
	h.Session.SetClient(nil, json.RawMessage(`{"elicitation":{}}`))
	p := &calltest.Person{Answer: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(answer), nil
	}}
	err = h.Directly(t, p, "tools/call", params)
	if len(p.Asked) != 1 {
		t.Fatalf("asked %q: %v", p.Asked, err)
	}
	question := []byte(strings.TrimPrefix(p.Asked[0], "elicitation/create "))
	if rawjson.Valid(question) != nil {
		t.Fatalf("no JSON: %s", question)
	}
	return rawjson.Text(rawjson.Get(question, "message")), rawjson.Get(question, "requestedSchema"), err
}

// TestTheQuestionIsAViewOfWhatRuns: each argument stands on a line of its own,
// whole, with its length, and nothing else looks like one.
func TestTheQuestionIsAViewOfWhatRuns(t *testing.T) {
	for _, c := range []struct{ name, params, want string }{
		{"none", `{"name":"drop"}`, "Allow tools/call of \"drop\" at server \"files\"?\nServer: files\nThe server says that this tool may destroy something.\nNo arguments."},
		{"an empty object", `{"name":"drop","arguments":{}}`, "\nNo arguments."},
		{"an argument", `{"name":"drop","arguments":{"path":"/x"}}`, "\n1 argument, 8 bytes:\n  path (2 characters): \"/x\""},
		{"several", `{"name":"drop","arguments":{"amount":1.50,"to":"é","flags":{"a":[1,2]},"n":null}}`,
			"\n4 arguments, 37 bytes:\n  amount (4 characters): 1.50\n  to (1 character): \"é\"\n  flags (11 characters): {\"a\":[1,2]}\n  n (4 characters): null"},
		{"what agents call secrets", `{"name":"drop","arguments":{"password":"send-to-mallory","to":"https://x:account@bank/"}}`, `password (15 characters): "send-to-mallory"` + "\n" + `  to (23 characters): "https://x:account@bank/"`},
		{"a configured secret", `{"name":"drop","arguments":{"key":"hunter22"}}`, `key (8 characters): "[redacted]"`},
		{"line breaks", `{"name":"drop","arguments":{"a":"1\n  b (1 character): \"2\"\r\t"}}`, `  a (26 characters): "1\n  b (1 character): \"2\"\r\t"`},
		{"invisible text", `{"name":"drop","arguments":{"a":"\u202egpj.\u200b\u0085\u3164\udb40\udc41"}}`, `"\u202egpj.\u200b\u0085\u3164\u{e0041}"`},
		{"invisible text in what is no string", `{"name":"drop","arguments":{"a":["\u202e"]}}`, `["\u202e"]`},
		{"a name that looks like lines", `{"name":"drop","arguments":{"x\nNo arguments.":1,"":2,"a b":3}}`, "\n  \"x\\nNo arguments.\" (1 character): 1\n  \"\" (1 character): 2\n  \"a b\" (1 character): 3"},
		{"no object", `{"name":"drop","arguments":[1]}`, "arguments (3 characters): [1]"},
		{"what goes along", `{"name":"drop","task":{"ttl":1},"_meta":{"progressToken":1,"io.modelcontextprotocol/x":2,"vendor/y":3}}`, "2 arguments, 35 bytes:\n  params.task (9 characters): {\"ttl\":1}\n  \"_meta.vendor/y\" (1 character): 3"},
		{"an unlisted name", `{"name":"hid\u202eden"}`, `Allow tools/call of "hid\u202eden" at server`},
		{"a long name", `{"name":"` + strings.Repeat("n", 100) + `"}`, `params.name (100 characters): "` + strings.Repeat("n", 100) + `"`},
	} {
		message, schema, err := askPerson(t, metatool.Options{Redactor: result.NewRedactor([]string{"hunter22"})}, c.params, `{"action":"accept"}`)
		if err != nil || !strings.Contains(message, c.want) || strings.Contains(message, "hunter22") || string(schema) != `{"type":"object","properties":{}}` {
			t.Errorf("%s: %v\n%s\n%s", c.name, err, message, schema)
		}
		for _, r := range message {
			if r != '\n' && !unicode.IsPrint(r) || unseen(r) && r != '\n' {
				t.Errorf("%s: %U is shown as it is", c.name, r)
			}
		}
	}
}

// TestLongArgumentsBeginWithANo: of what does not fit both ends are shown, it is
// said how much is not, and the answer is no unless a field is set.
func TestLongArgumentsBeginWithANo(t *testing.T) {
	long := "BEGIN" + strings.Repeat("filler é ", 700) + "END"
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	huge := make([]string, 1200)
	for i := range huge {
		huge[i] = fmt.Sprintf("%q:%q", fmt.Sprint(i)+strings.Repeat("\u202e", 90), strings.Repeat("\u202e", 50))
	}
	for _, c := range []struct {
		name, arguments string
		want            []string
	}{
		{"a long text", `{"text":"` + long + `","amount":1}`, []string{`text (6,308 characters): "BEGINfiller`, " characters not shown … \"", `END"`, "amount (1 character): 1"}},
		{"a long list", `{"list":[0,"` + long + `",9]}`, []string{`list (6,316 characters): [0,"BEGIN`, "characters not shown … ", `END",9]`}},
		{"many arguments", "{" + strings.Join(many, ",") + "}", []string{"60 arguments", "k39 (2 characters): 39", "… and 20 arguments with 100 bytes, not shown"}},
		{"everything at once", "{" + strings.Join(huge, ",") + "}", []string{"1,200 arguments", "1,160 arguments", "of the name not shown"}},
	} {
		for answer, approved := range map[string]bool{
			`{"action":"accept"}`: false, `{"action":"accept","content":{}}`: false, `{"action":"accept","content":{"approve":false}}`: false, `{"action":"accept","content":{"approve":"true"}}`: false,
			`{"action":"decline","content":{"approve":true}}`: false, `{"action":"accept","content":{"approve":true}}`: true,
		} {
			message, schema, err := askPerson(t, metatool.Options{}, `{"name":"drop","arguments":`+c.arguments+`}`, answer)
			if (err == nil) != approved {
				t.Errorf("%s, %s: %v", c.name, answer, err)
			}
			for _, want := range append(c.want, "\nNot everything fits here: the answer is no unless you set \"approve\".") {
				if !strings.Contains(message, want) {
					t.Errorf("%s lacks %q:\n%.3000s", c.name, want, message)
				}
			}
			if len(message) > 64<<10 {
				t.Errorf("%s: the question has %d bytes", c.name, len(message))
			}
			if string(rawjson.GetPath(schema, "properties", "approve", "default")) != "false" || string(rawjson.Get(schema, "required")) != `["approve"]` {
				t.Errorf("%s: %s", c.name, schema)
			}
		}
	}
	// Up to 4 KB everything is there, wherever it stands.
	middle := strings.Repeat("a", 1800) + " what counts " + strings.Repeat("b", 1800)
	if message, _, err := askPerson(t, metatool.Options{}, `{"name":"drop","arguments":{"text":"`+middle+`"}}`, `{"action":"accept"}`); err != nil || !strings.Contains(message, middle) {
		t.Errorf("%v\n%s", err, message)
	}
}

// TestTheQuestionAtTheGateway: the person sees the tool's arguments, and of what
// is put in later that it is.
func TestTheQuestionAtTheGateway(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}})
	h.Session.SetClient(nil, json.RawMessage(`{"elicitation":{}}`))
	kept, err := h.Options.Artifacts.At("").Put(t.Context(), "ann", "application/json", "rows", []byte(`[{"q":1},{"q":2},{"q":3},{"q":4},{"q":5},{"q":6},{"q":7},{"q":8}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ arguments, want string }{
		{`{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{}}`, "No arguments."},
		{`{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{"path":"/x"}}`, "  path (2 characters): \"/x\""},
		{`{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{"rows":{"$table":"` + kept.Handle + `"}}}`, `{"$table":"` + kept.Handle + `"}` + "\nReferences ({\"$table\": …}, ddi://…) stand for rows"},
		{`{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{"resource_url":"ddi://x"}}`, "\nReferences ("},
	} {
		p := &calltest.Person{Answer: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"action":"decline"}`), nil
		}}
		out, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: h.Session, Peer: p, Params: json.RawMessage(`{"name":"tool_execute","arguments":` + c.arguments + `}`)})
		if err != nil || len(p.Asked) != 1 || len(h.Called()) != 0 {
			t.Fatalf("%s: asked %q, %s %v", c.arguments, p.Asked, out, err)
		}
		if message := rawjson.Text(rawjson.Get([]byte(strings.TrimPrefix(p.Asked[0], "elicitation/create ")), "message")); !strings.Contains(message, c.want) {
			t.Errorf("%s: %s", c.arguments, message)
		}
	}
}

// TestTheQuestionAboutWhatIsRead: the URI stands there as it goes out.
func TestTheQuestionAboutWhatIsRead(t *testing.T) {
	h, _ := metatooltest.Library(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}})
	h.Session.SetClient(nil, json.RawMessage(`{"elicitation":{}}`))
	for method, c := range map[string]struct{ params, want string }{
		"resources/read":      {`{"uri":"file:///docs/readme.md"}`, "  uri (22 characters): \"file:///docs/readme.md\""},
		"resources/subscribe": {`{"uri":"file:///docs/readme.md"}`, "Allow resources/subscribe of "},
		"prompts/get":         {`{"name":"hello","arguments":{"a":"b"}}`, "  a (1 character): \"b\""},
		"completion/complete": {`{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":"b"}}`, "  params.argument (24 characters): {\"name\":\"a\",\"value\":\"b\"}"},
	} {
		for _, direct := range []bool{false, true} {
			p := &calltest.Person{Answer: func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"action":"decline"}`), nil
			}}
			var err error
			if direct {
				err = h.Directly(t, p, method, c.params, metatool.Place{Upstream: "docs", Namespace: "docs"})
			} else {
				_, err = h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: method, Version: mcp.V20251125, Session: h.Session, Peer: p, Params: json.RawMessage(c.params)})
			}
			if len(p.Asked) != 1 || calltest.KindOf(err) != mcp.KindPermissionDenied {
				t.Fatalf("%s, direct %v: asked %q, %v", method, direct, p.Asked, err)
			}
			if message := rawjson.Text(rawjson.Get([]byte(strings.TrimPrefix(p.Asked[0], "elicitation/create ")), "message")); !strings.Contains(message, c.want) {
				t.Errorf("%s, direct %v: %s", method, direct, message)
			}
		}
	}
}

// unseen reports whether a character takes no place of its own on a screen, or
// is blank without being white space: readers overlook it.
func unseen(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
		return true
	case r == '\u034f', r == '\u115f', r == '\u1160', r == '\u17b4', r == '\u17b5', r == '\u2800', r == '\u3164', r == '\uffa0':
		return true // joiners and fillers
	}
	return false
}
