package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func with(t *testing.T, l primitive.Listing) (*Catalog, Report) {
	t.Helper()
	l.Upstream, l.Namespace = "files", "files"
	return New(Limits{}).With(l)
}

// A text of a definition takes no more than 64 KB, wherever it stands, and what
// was cut is told.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", primitive.MaxText)
	tool := fmt.Sprintf(`{ "name":"read","description":%q,"inputSchema":{"type":"object","properties":{"path":{"type":"string","description":%q,"title":"short"}}},"_meta":{"x":[%q,12345678901234567890]}}`,
		long, long, strings.Repeat("x", primitive.MaxText))
	c, report := with(t, primitive.Listing{Tools: []json.RawMessage{json.RawMessage(tool)}})
	e := c.Entries()[0]
	for name, text := range map[string]string{"description": e.Description, "a parameter's": e.Params()[0].Description} {
		if len(text) > primitive.MaxText || len(text) < primitive.MaxText-8 || !utf8.ValidString(text) || !strings.HasSuffix(text, "é…") {
			t.Errorf("%s has %d bytes and ends with %q", name, len(text), text[len(text)-6:])
		}
	}
	if !json.Valid(e.Raw) || len(e.Raw) > 4*primitive.MaxText {
		t.Errorf("the definition has %d bytes", len(e.Raw))
	}
	if raw := string(e.Raw); !strings.Contains(raw, `"title":"short"`) || !strings.Contains(raw, strings.Repeat("x", primitive.MaxText)+`",12345678901234567890]`) {
		t.Error("what is not too long is not as it was")
	}
	if !report.Has(FoundTextCut) || !slices.Equal(c.Partial(), []string{"files"}) {
		t.Errorf("nobody is told: %v", report.Findings)
	}
	for _, f := range report.Findings {
		if f.Kind == FoundTextCut && (!strings.Contains(f.Message, "2 texts") || !strings.Contains(f.Message, fmt.Sprint(2*primitive.MaxText))) {
			t.Errorf("%s", f.Message)
		}
	}
}

// An argument that the schema names is valid, however long it is. Texts about it are cut.
func TestLongValuesStay(t *testing.T) {
	long := strings.Repeat("é", primitive.MaxText)
	for keyword, text := range map[string]string{
		"enum":    fmt.Sprintf(`{"enum":["a",%q]}`, long),
		"const":   fmt.Sprintf(`{"const":%q}`, long),
		"within":  fmt.Sprintf(`{"anyOf":[{"type":"null"},{"const":{"description":%q}}]}`, long),
		"escaped": fmt.Sprintf(`{"\u0063onst":%q}`, long),
		"pattern": fmt.Sprintf(`{"pattern":%q}`, "^a|"+long+"$"),
		"default": fmt.Sprintf(`{"default":%q,"title":%q}`, long, "cut: "+long),
	} {
		tool := fmt.Sprintf(`{"name":"read","inputSchema":{"type":"object","properties":{"enum":{"description":%q},"text":%s}}}`, long, text)
		c, _ := with(t, primitive.Listing{Tools: []json.RawMessage{json.RawMessage(tool)}})
		e := c.Entries()[0]
		value := fmt.Sprintf("%q", long)
		if keyword == "within" {
			value = `{"description":` + value + `}`
		}
		if err := e.Validate(json.RawMessage(`{"text":` + value + `}`)); err != nil {
			t.Errorf("%s: %.300v", keyword, err)
		}
		if n := bytes.Count(e.Raw, []byte(long)); n != 1 {
			t.Errorf("%s: %d whole texts in a definition of %d bytes", keyword, n, len(e.Raw))
		}
		if n := primitive.KeptSize([]byte(tool)); n != len(e.Raw) {
			t.Errorf("%s: a size of %d bytes, %d are kept", keyword, n, len(e.Raw))
		}
	}
}

// Nothing is different about definitions without such a text.
func TestShortTextsStay(t *testing.T) {
	parameters := strings.TrimSuffix(strings.Repeat(`{"a":"`+strings.Repeat("y", 1000)+`"},`, 100), ",")
	tool := `{"name":"read","description":"Reads.","x":[` + parameters + `]}`
	c, report := with(t, primitive.Listing{Tools: []json.RawMessage{json.RawMessage(tool)}})
	if got := string(c.Entries()[0].Raw); got != tool || report.Has(FoundTextCut) || c.Partial() != nil {
		t.Errorf("%d bytes of %d; %v, %v", len(got), len(tool), report.Findings, c.Partial())
	}
}

// What cannot be cut is left out.
func TestLongIdentifiersAreLeftOut(t *testing.T) {
	long := strings.Repeat("n", maxIdentifier+1)
	c, report := with(t, primitive.Listing{
		Tools:     []json.RawMessage{json.RawMessage(`{"name":"` + long + `"}`), json.RawMessage(`{"name":"ok"}`), json.RawMessage(`{"name":"key","inputSchema":{"` + strings.Repeat("k", primitive.MaxText+1) + `":1}}`)},
		Resources: []json.RawMessage{json.RawMessage(`{"name":"r","uri":"file:///` + long + `"}`)},
	})
	if c.Len() != 1 || len(c.Partial()) != 1 {
		t.Errorf("%d entries, partial %v", c.Len(), c.Partial())
	}
	left := 0
	for _, f := range report.Findings {
		if f.Kind == FoundInvalid && strings.Contains(f.Message, "left out") && len(f.Message) < 1000 {
			left++
		}
	}
	if left != 3 {
		t.Errorf("%d are told of: %v", left, report.Findings)
	}
}

// A list that was cut is a finding, also where there are a thousand others.
func TestCutListIsFound(t *testing.T) {
	tools := make([]json.RawMessage, 2*maxFindings)
	for i := range tools {
		tools[i] = json.RawMessage(`{"name":"same"}`)
	}
	c, report := with(t, primitive.Listing{Tools: tools, Cut: []string{"tools/list is cut after 20000 entries: it has more than 20000 entries"}})
	if !report.Has(FoundListCut) || !slices.Equal(c.Partial(), []string{"files"}) {
		t.Errorf("partial %v", c.Partial())
	}
	if c = c.Without("files"); c.Partial() != nil {
		t.Errorf("of a server that is gone, %v is partial", c.Partial())
	}
}

// A long text does not stay in memory.
func TestLongTextsAreLetGo(t *testing.T) {
	const length = 12 << 20
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	tool := json.RawMessage(`{"name":"read","description":"` + strings.Repeat("x", length) + `"}`)
	c, _ := with(t, primitive.Listing{Tools: []json.RawMessage{tool}})
	tool = nil
	if after := inUse(); after > before+length/4 {
		t.Errorf("%d MB more are in use for %d entries", (after-before)>>20, c.Len())
	}
	runtime.KeepAlive(c)
}
