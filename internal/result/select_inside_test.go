package result

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
)

// Most tools answer with an object around their list. table and rows find the list.
func TestRowsAndTablesInsideAnObject(t *testing.T) {
	orders := `[` + numbered(`{"id":#,"status":"late","lines":[{"n":1}]}`, 4, ",\n") + `]`
	one := `{"data":{"orders":` + orders + `,"tags":["a","b"]},"exported":"2026"}`
	two := `{"orders":` + orders + `,"users":[{"id":7}],"n":1}`
	words := `{"words":["a",{"b":1},3],"n":1}`
	for _, tt := range []struct{ data, selector, text, next string }{
		{one, `{"type":"rows","start":2}`, "[\n{\"id\":2,\"status\":\"late\",\"lines\":[{\"n\":1}]},\n{\"id\":3,\"status\":\"late\",\"lines\":[{\"n\":1}]}\n]", ""},
		{one, `{"type":"table","columns":["id"],"where":[{"column":"id","op":"gt","value":2}]}`, "[\n{\"_row_id\":3,\"id\":3}\n]", ""},
		{one, `{"type":"table","aggregate":[{"op":"count"}],"group_by":["status"]}`, "[\n{\"status\":\"late\",\"count\":4}\n]", ""},
		{two, `{"type":"rows","path":"$.users"}`, "[\n{\"id\":7}\n]", ""},
		{two, `{"type":"rows","path":"orders","end":1}`, "[\n{\"id\":0,\"status\":\"late\",\"lines\":[{\"n\":1}]}\n]", `{"type":"rows","start":1,"end":2,"path":"orders"}`},
		{two, `{"type":"table","path":"$.orders","columns":["id"],"limit":1}`, "[\n{\"id\":0}\n]", `{"type":"table","path":"$.orders","columns":["id"],"limit":1,"offset":1}`},
		{two, `{"type":"table","path":"$.orders[?@.id>1]","columns":["id"]}`, "[\n{\"id\":2},\n{\"id\":3}\n]", ""},
		{two, `{"type":"rows","path":"$.orders[*].lines[*]","end":1}`, "[\n{\"n\":1}\n]", `{"type":"rows","start":1,"end":2,"path":"$.orders[*].lines[*]"}`},
		{words, `{"type":"rows"}`, "[\n\"a\",\n{\"b\":1},\n3\n]", ""},
		{"[1,2,\n3]", `{"type":"rows","start":1}`, "[\n2,\n3\n]", ""},
	} {
		v := sel(t, tt.data, tt.selector)
		if v.Text != tt.text || string(v.Next) != tt.next {
			t.Errorf("%s:\n got %s, next %s\nwant %s, next %s", tt.selector, v.Text, v.Next, tt.text, tt.next)
		}
	}
	for _, tt := range []struct{ data, selector, want string }{
		{two, `{"type":"table"}`, "several arrays of objects: $.orders, $.users; name an array of objects by path"},
		{`{"a":[1],"b":[2]}`, `{"type":"rows"}`, "art_x has several: name one by path, of $.a, $.b"},
		{two, `{"type":"rows","path":"$.n"}`, `type "rows" needs an array and $.n is integer 1`},
		{two, `{"type":"table","path":"$.none"}`, `path "$.none" selects nothing`},
		{words, `{"type":"table","path":"$.words"}`, `type "table" needs rows`},
		{one, `{"type":"rows","path":"$["}`, `path "$["`},
		{"plain", `{"type":"rows","path":"$.a"}`, `type "rows" needs JSON`},
	} {
		_, err := selectBytes(t.Context(), artifact.Artifact{Handle: "art_x"}, []byte(tt.data), json.RawMessage(tt.selector), ViewOptions{})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: %v, want %s", tt.selector, err, tt.want)
		}
	}
}
