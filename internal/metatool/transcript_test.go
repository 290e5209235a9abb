package metatool

import (
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

var updateTranscripts = flag.Bool("update-transcripts", false, "write the golden transcripts")

// handlePattern matches the handle of a kept result or of a task.
var handlePattern = regexp.MustCompile(`\b(?:art|task)_[a-z0-9]{8,}`)

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

// entries are 500 entries of a log in one line of JSON, three of them about a timeout.
func entries() string {
	var rows []string
	for i := range 500 {
		message := "request served"
		if i%200 == 77 {
			message = "timeout of the payment service"
		}
		rows = append(rows, fmt.Sprintf(`{"seq":%d,"level":"info","message":%q}`, i, message))
	}
	return "[" + strings.Join(rows, ",") + "]"
}

// manual is a Markdown document with eight sections.
func manual() string {
	var b strings.Builder
	b.WriteString("# Pump manual\n\nHow to install, run and mend the pump.\n")
	for _, title := range []string{"Safety", "Installation", "First run", "Operation", "Cleaning", "Faults", "Spare parts", "Warranty"} {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for i := range 12 {
			fmt.Fprintf(&b, "%s, step %d: turn the valve by a quarter and wait.\n", title, i+1)
		}
	}
	return b.String()
}

// sales are 300 rows of comma-separated values.
func sales() string {
	var b strings.Builder
	b.WriteString("day,region,units,price\n")
	for i := range 300 {
		fmt.Fprintf(&b, "2026-%02d-%02d,%s,%d,%d\n", i/28%12+1, i%28+1, []string{"north", "south", "west"}[i%3], i%17, 20+i%5)
	}
	return b.String()
}

// picture is a result with a picture that is too large for a model.
func picture() string {
	return `{"content":[{"type":"text","text":"Rendered the floor plan."},{"type":"image","mimeType":"image/png","data":"` +
		base64.StdEncoding.EncodeToString(make([]byte, 1_200_000)) + `"}]}`
}

const reportURI = "memo://reports/7"

// archive is a server whose tool links to a resource of its list.
func archive(h *harness) {
	l := &linker{Shelf: &calltest.Shelf{Answers: map[string]string{}}, answer: linkTo(reportURI)}
	l.has(reportURI, manual())
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Others = map[string]mcp.Peer{"disk": l}
	h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "disk", Namespace: "disk", Tools: calltest.Raws(calltest.ReadTool),
		Resources: calltest.Raws(`{"uri":"` + reportURI + `","name":"Report 7","description":"The manual of the pump"}`)})
}

// slow is a server whose tool is answered with a task that lasts 40 seconds.
func slow(h *harness) {
	h.Others = map[string]mcp.Peer{"disk": &calltest.TaskServer{Modern: true, Lasts: 40 * time.Second, Says: "420 rows imported"}}
	h.Add("disk", nil, calltest.ReadTool)
}

// modelTask is a task of a model: a call, and the calls that its answer leads to.
type modelTask struct {
	name, result, args string
	serve              func(*harness) // in place of a server that answers result
	more               []string       // "tool arguments"; HANDLE is the handle in the last answer
	answer             string         // in the last answer
}

var flows = []modelTask{
	{name: "late orders by customer", result: calltest.Text(orders()), args: `{"path":"orders.json"}`,
		more: []string{`tool_view {"handle":"HANDLE","selector":{"type":"table","where":[{"column":"status","op":"eq","value":"late"}],"group_by":["customer"],"aggregate":[{"op":"sum","column":"total"}]}}`}, answer: `c0,832`},
	{name: "last error in a log", result: calltest.Text(logLines()), args: `{"path":"log"}`, answer: "ERROR disk full on /var"},
	{name: "wrong first call", result: calltest.Text("ok"), args: `{"file_path":"a"}`, answer: "did you mean path?"},
	{name: "big JSON object", result: calltest.Text(bigObject()), args: `{"path":"settings"}`,
		more: []string{`tool_view {"handle":"HANDLE","selector":{"type":"json_path","path":"$.group41.limit"}}`}, answer: "41"},
	{name: "resource link", serve: archive, args: `{"path":"r"}`,
		more: []string{`resource_read {"resource_id":"` + reportURI + `"}`, `tool_view {"handle":"HANDLE","selector":{"type":"section","heading":"Faults"}}`}, answer: "Faults, step 12"},
	{name: "search in a JSON array", result: calltest.Text(entries()), args: `{"path":"log.json"}`,
		more: []string{`tool_view {"handle":"HANDLE","selector":{"type":"search","pattern":"timeout"}}`}, answer: "timeout of the payment service"},
	{name: "Markdown by section", result: calltest.Text(manual()), args: `{"path":"manual.md"}`,
		more: []string{`tool_view {"handle":"HANDLE","selector":{"type":"section","heading":"Installation"}}`}, answer: "Installation, step 12"},
	{name: "CSV aggregated", result: calltest.Text(sales()), args: `{"path":"sales.csv"}`,
		more: []string{`tool_view {"handle":"HANDLE","selector":{"type":"table","group_by":["region"],"aggregate":[{"op":"sum","column":"units"}]}}`}, answer: "south"},
	{name: "large picture", result: picture(), args: `{"path":"plan"}`, answer: "floor plan"},
	{name: "async tool", serve: slow, args: `{"path":"rows.csv"}`,
		more: []string{`tool_view {"handle":"HANDLE","selector":{"type":"head"}}`}, answer: "420 rows imported"},
}

// TestTranscripts replays what a model does in a few tasks, and compares every byte that it reads.
// Each golden file ends with the turns and the tokens of calls and answers.
func TestTranscripts(t *testing.T) {
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f.replay(t) })
		})
	}
}

// steadyHandles have the length of the handles in answers, which depend on the secret of the store.
var steadyHandles = map[string]string{"art_": "art_gomktw5eyi2q", "task_": "task_gomktw5eyi2qa"}

// replay makes the calls of a flow and compares them with its golden file.
func (f *modelTask) replay(t *testing.T) {
	h := newHarness(t, Options{Tasks: tasks.Options{Wait: 30 * time.Second}})
	if f.serve != nil {
		f.serve(h)
	} else {
		h.Add("disk", calltest.Say(f.result), calltest.ReadTool)
	}
	var out strings.Builder
	var last calltest.Answer
	tokens, turns := 0, 0
	handle, stands := "no handle", ""
	steady := func(s string) string { return strings.ReplaceAll(s, handle, stands) }
	turn := func(name, arguments string) {
		last = h.Tool(t, name, arguments)
		for i := range last.Content {
			if at := handlePattern.FindString(last.Content[i].Text); at != "" {
				handle, stands = at, steadyHandles[at[:strings.IndexByte(at, '_')+1]]
			}
		}
		turns++
		fmt.Fprintf(&out, "> %s %s\n", name, steady(arguments))
		tokens += token.Count(steady(arguments))
		for _, c := range last.Content {
			text := c.Text
			if c.Type != "text" {
				text = "(" + c.Type + ")"
			}
			tokens += token.Count(steady(text))
			out.WriteString(steady(text) + "\n")
		}
	}
	turn(ToolExecute, `{"tool_id":"`+h.ID(t, "disk", "read_file")+`","args":`+f.args+`}`)
	for _, call := range f.more {
		name, arguments, _ := strings.Cut(call, " ")
		turn(name, strings.ReplaceAll(arguments, "HANDLE", handle))
	}
	if text := last.Content[0].Text; !strings.Contains(text, f.answer) {
		t.Errorf("the last answer has no %q: %.2000s", f.answer, text)
	}
	fmt.Fprintf(&out, "\n%d turns, %d tokens\n", turns, tokens)
	got := out.String()
	golden := filepath.Join("testdata", "transcripts", strings.ReplaceAll(f.name, " ", "-")+".txt")
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
}
