package openapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/upstream/openapi"
)

// TestRealDocuments lists the documents of the folder WEIR_OPENAPI_DOCUMENTS, which interop/openapi.sh fills from npm:
// each within two seconds, with schemas that compile and fit into the default schema_limits.
func TestRealDocuments(t *testing.T) {
	dir := os.Getenv("WEIR_OPENAPI_DOCUMENTS")
	if dir == "" {
		t.Skip("there are no documents of real APIs")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d documents in %s, %v; at least 8 are expected", len(files), dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			began := time.Now()
			a, err := openapi.Open(t.Context(), openapi.Options{Name: "upstream", Document: file, Base: "https://api.example.com"})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			raw, err := a.Call(t.Context(), "tools/list", nil, nil)
			took := time.Since(began)
			var list struct {
				Tools []struct {
					Name        string
					InputSchema json.RawMessage
				}
			}
			if err != nil || json.Unmarshal(raw, &list) != nil || len(list.Tools) == 0 {
				t.Fatalf("%v, %d tools", err, len(list.Tools))
			}
			if took > 2*time.Second {
				t.Errorf("listed in %s", took)
			}
			largest := 0
			for _, tool := range list.Tools {
				largest = max(largest, len(tool.InputSchema))
				c := jsonschema.NewCompiler()
				schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.InputSchema))
				if err == nil {
					err = c.AddResource("mem:tool", schema)
				}
				if err == nil {
					_, err = c.Compile("mem:tool")
				}
				if err != nil {
					t.Errorf("%s: %v", tool.Name, err)
				}
				if n := len(tool.InputSchema); n > 64<<10 {
					t.Errorf("%s: a schema of %d bytes", tool.Name, n)
				}
			}
			t.Logf("%d tools in %s, %d bytes, the largest schema %d", len(list.Tools), took.Round(time.Millisecond), len(raw), largest)
		})
	}
}
