package lockfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// TestTextsOfAnyDefinition: no definition keeps the lock from being written and read again.
func TestTextsOfAnyDefinition(t *testing.T) {
	for name, tool := range map[string]string{
		"replacement":    strings.Replace(read, "Reads", "\ufffd", 1),
		"surrogate":      strings.Replace(read, "Reads", `\ud800`, 1),
		"invalid bytes":  strings.Replace(read, "Reads", "\xff", 1),
		"surrogate key":  strings.Replace(read, `"description":"Where."`, `"\udfff":"\udfff"`, 1),
		"duplicate":      strings.Replace(read, `"name":`, `"title":"a","title":"\ud800","name":`, 1),
		"as deep as can": `{"name":"read_file","x":` + strings.Repeat("[", rawjson.MaxDepth-1) + strings.Repeat("]", rawjson.MaxDepth-1) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			path, mode := filepath.Join(t.TempDir(), Name), hold
			k, sink := keeper(path, &mode, nil)
			k.Update(files(tool, write))
			if len(k.memory) != 0 {
				t.Error("the lock was not written")
			}
			again, sink2 := keeper(path, &mode, nil)
			if again.broken != nil {
				t.Fatal(again.broken)
			}
			again.Update(files(tool, write))
			if a, b := sink.tools("files"), sink2.tools("files"); a != "read_file write_file" || b != a {
				t.Errorf("served: %q, and after a restart %q", a, b)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if encoded, err := again.file.Encode(); err != nil || string(encoded) != string(data) {
				t.Errorf("read and written, it differs: %v", err)
			}
		})
	}
}
