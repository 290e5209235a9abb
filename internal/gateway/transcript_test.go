package gateway

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/token"
)

var updateTranscripts = flag.Bool("update-transcripts", false, "write the golden transcripts")

// orders are 400 orders in an object, every third of them late.
func orders() string {
	var rows []string
	for i := range 400 {
		rows = append(rows, fmt.Sprintf(`{"id": %d, "customer": "c%d", "total": %d, "status": %q}`, i, i%4, i%50, []string{"late", "open", "paid"}[i%3]))
	}
	return `{"orders": [` + strings.Join(rows, ", ") + `], "exported": "2026-11-01"}`
}

// logLines are a log whose last line is an error.
func logLines() string {
	var b strings.Builder
	for i := range 4999 {
		fmt.Fprintf(&b, "2026-11-01 INFO request %d served\n", i)
	}
	return b.String() + "2026-11-01 ERROR disk full on /var\n"
}

// bigObject is an object of many settings without a table.
func bigObject() string {
	var parts []string
	for i := range 60 {
		parts = append(parts, fmt.Sprintf(`"group%d":{"enabled":true,"limit":%d,"note":"%s"}`, i, i, strings.Repeat("n", 80)))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestTranscripts replays what a model does in a few tasks, and compares every byte that it reads.
// Each golden file ends with the turns and the tokens of calls and answers.
func TestTranscripts(t *testing.T) {
	for _, flow := range []struct {
		name, result, args string
		views              []string // selectors, of the handle that the first answer has
		answer             string   // in the last answer
	}{
		{"late orders by customer", textResult(orders()), `{"path":"orders.json"}`,
			[]string{`{"type":"table","where":[{"column":"status","op":"eq","value":"late"}],"group_by":["customer"],"aggregate":[{"op":"sum","column":"total"}]}`}, `"customer":"c0"`},
		{"last error in a log", textResult(logLines()), `{"path":"log"}`, nil, "ERROR disk full on /var"},
		{"wrong first call", textResult("ok"), `{"file_path":"a"}`, nil, "did you mean path?"},
		{"big JSON object", textResult(bigObject()), `{"path":"settings"}`, []string{`{"type":"json_path","path":"$.group41.limit"}`}, "41"},
	} {
		t.Run(flow.name, func(t *testing.T) {
			h := newHarness(t, Options{})
			h.add("disk", say(flow.result), readTool)
			var out strings.Builder
			tokens, turns, last := 0, 0, shaped{}
			handle := "no handle"
			// A handle depends on the secret of the store: another of its length stands in its place.
			steady := func(s string) string { return strings.ReplaceAll(s, handle, "art_gomktw5eyi2q") }
			turn := func(name, arguments string) {
				last = h.tool(t, name, arguments)
				if len(last.env.Artifacts) > 0 {
					handle = last.env.Artifacts[0].Handle
				}
				turns++
				fmt.Fprintf(&out, "> %s %s\n", name, steady(arguments))
				tokens += token.Count(steady(arguments))
				for _, c := range last.Content {
					tokens += token.Count(steady(c.Text))
					out.WriteString(steady(c.Text) + "\n")
				}
			}
			turn(ToolExecute, `{"tool_id":"`+h.id(t, "disk", "read_file")+`","args":`+flow.args+`}`)
			for _, selector := range flow.views {
				turn(ToolView, `{"handle":`+string(rawjson.Quote(handle))+`,"selector":`+selector+`}`)
			}
			if text := last.Content[0].Text; !strings.Contains(text, flow.answer) {
				t.Errorf("the last answer has no %q: %s", flow.answer, text)
			}
			fmt.Fprintf(&out, "\n%d turns, %d tokens\n", turns, tokens)
			got := out.String()
			golden := filepath.Join("testdata", "transcripts", strings.ReplaceAll(flow.name, " ", "-")+".txt")
			if *updateTranscripts {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", golden, got, want)
			}
			t.Logf("%d turns, %d tokens", turns, tokens)
		})
	}
}
