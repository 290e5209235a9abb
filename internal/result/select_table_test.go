package result

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
)

func TestTableSelector(t *testing.T) {
	var rows []string
	for i := range 200 {
		rows = append(rows, fmt.Sprintf(`{"event":%q,"wind":%d,"big":12345678901234567890}`, []string{"Wind", "Flood"}[i%2], i))
	}
	a := artifact.Artifact{Handle: "art_x", MediaType: "application/json"}
	data := "[" + strings.Join(rows, ", ") + "]"
	for _, tt := range []struct{ selector, want, notice, next string }{
		{`{"type":"table","columns":"wind","offset":1,"limit":2}`, "[\n{\"_row_id\":1,\"wind\":1},\n{\"_row_id\":2,\"wind\":2}\n]", "rows 1 to 3 of 200", `{"type":"table","columns":"wind","offset":3,"limit":2}`},
		{`{"type":"table","columns":["big"],"where":[{"column":"event","op":"eq","value":"Flood"},{"column":"wind","op":"ge","value":197}]}`, "[\n{\"_row_id\":197,\"big\":12345678901234567890},\n{\"_row_id\":199,\"big\":12345678901234567890}\n]", "all 2 rows that match, of 200", ""},
		{`{"type":"table","columns":["wind"],"order_by":["-wind"],"limit":1}`, "[\n{\"_row_id\":199,\"wind\":199}\n]", "rows 0 to 1 of 200", `{"type":"table","columns":["wind"],"order_by":["-wind"],"limit":1,"offset":1}`},
		{`{"type":"table","group_by":["event"],"aggregate":[{"op":"max","column":"wind","as":"most"},{"op":"count"}],"order_by":["event"]}`, "[\n{\"event\":\"Flood\",\"most\":199,\"count\":100},\n{\"event\":\"Wind\",\"most\":198,\"count\":100}\n]", "", ""},
		{`{"type":"table","offset":500}`, "[]", "rows 200 to 200 of 200", ""},
	} {
		v, err := selectBytes(t.Context(), a, []byte(data), json.RawMessage(tt.selector), ViewOptions{})
		if err != nil || v.Text != tt.want || !strings.Contains(v.Notice, tt.notice) || string(v.Next) != tt.next {
			t.Errorf("%s:\n%s\n%s\n%s\n%v", tt.selector, v.Text, v.Notice, v.Next, err)
		}
	}
	v, err := selectBytes(t.Context(), a, []byte(data), json.RawMessage(`{"type":"table"}`), ViewOptions{})
	if err != nil || strings.Count(v.Text, "\n{") != 50 {
		t.Errorf("%d rows by default, %v", strings.Count(v.Text, "\n{"), err)
	}
	v, err = selectBytes(t.Context(), a, []byte(data), json.RawMessage(`{"type":"table","limit":200}`), ViewOptions{MaxChars: 3000})
	if err != nil || len(v.Text)+len(v.Notice) > 3000 || len(v.Next) == 0 {
		t.Errorf("%d characters, next %s, %v", len(v.Text), v.Next, err)
	}
	for _, tt := range []struct{ data, selector, want string }{
		{data, `{"type":"table","limit":-1}`, "limit"},
		{data, `{"type":"table","limit":"many"}`, "limit"},
		{data, `{"type":"table","columns":["evnt"]}`, `columns[0] names "evnt"`},
		{data, `{"type":"table","where":[{"column":"wind","op":"near","value":1}]}`, "where[0].op"},
		{data, `{"type":"table","where":[{"column":"wnd","op":"eq","value":1}]}`, "where[0].column"},
		{data, `{"type":"table","order_by":["wnd"]}`, "order_by[0]"},
		{data, `{"type":"table","aggregate":[{"op":"avrg","column":"wind"}]}`, "aggregate[0].op"},
		{data, `{"type":"table","rows":1}`, `"rows" is no parameter of table`},
		{"plain text", `{"type":"table"}`, `type "table" needs rows`},
	} {
		_, err := selectBytes(t.Context(), a, []byte(tt.data), json.RawMessage(tt.selector), ViewOptions{})
		if e, ok := err.(*Error); !ok || e.Code != ViewFailed || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: %v", tt.selector, err)
		}
	}
}
