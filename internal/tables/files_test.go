package tables_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/table"
)

// TestFilesOfTables: a file of Arrow or Parquet that a server answers is a table: it is described as one, viewed,
// passed on, and divided.
func TestFilesOfTables(t *testing.T) {
	const rows = `[{"day":"2026-01-31","n":12345678901234567890},{"day":"2026-02-01","n":1}]`
	var more strings.Builder // so that the file is too long to pass
	for i := range 300 {
		fmt.Fprintf(&more, `,{"day":"1999-01-01","n":0,"note":"%x"}`, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	of, err := table.Detect([]byte(strings.TrimSuffix(rows, "]")+more.String()+"]"), table.DetectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"application/vnd.apache.parquet":      func(b *bytes.Buffer) error { _, err := of.View().WriteParquet(b, nil); return err },
		"application/vnd.apache.arrow.stream": func(b *bytes.Buffer) error { _, err := of.View().WriteArrow(b); return err },
	} {
		var file bytes.Buffer
		if err := write(&file); err != nil {
			t.Fatal(err)
		}
		h := newServed(t, metatool.Options{})
		h.Add("lake", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"content":[{"type":"resource","resource":{"uri":"file:///days","mimeType":%q,"blob":%q}}]}`, name, base64.StdEncoding.EncodeToString(file.Bytes())), nil
		}, `{"name":"read","description":"Read a file.","inputSchema":{"type":"object"}}`)
		h.Add("math", calltest.Echo, `{"name":"take","description":"Take rows.","inputSchema":{"type":"object"}}`)

		told := fmt.Sprint(h.Execute(t, "lake", "read", `{}`, "").Content)
		handle := regexp.MustCompile(`art_\w+`).FindString(told)
		if !strings.Contains(told, "table: 302 rows × 3 columns") || handle == "" || !strings.Contains(told, `{"type":"table"`) {
			t.Fatalf("%s: %s", name, told)
		}
		view := fmt.Sprint(h.Tool(t, metatool.ToolView, fmt.Sprintf(`{"handle":%q,"selector":{"type":"table","where":{"column":"n","op":"gt","value":1},"columns":"day"}}`, handle)).Content)
		if !strings.Contains(view, "2026-01-31") || strings.Contains(view, "2026-02-01") {
			t.Errorf("%s: %s", name, view)
		}
		h.Execute(t, "math", "take", `{"rows":{"$table":"`+handle+`","columns":["day","n"],"limit":2}}`, "")
		if got := string(lastArgs(t, h.Harness)); got != `{"rows":`+rows+`}` {
			t.Errorf("%s: %s", name, got)
		}
		divided := fmt.Sprint(h.Execute(t, "lake", "read", `{}`, `,"abstract_domains":"day","mode":"sync"`).Content)
		if !strings.Contains(divided, `"abstract":[{"_row_id":0,"day":"2026-01-31"}`) {
			t.Errorf("%s: %s", name, divided)
		}
	}
}
