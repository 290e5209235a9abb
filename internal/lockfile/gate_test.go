package lockfile

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// TestGateUnreadableKey: the gate shows no definition of which readers may take different names.
func TestGateUnreadableKey(t *testing.T) {
	mode := hold
	k, _ := keeper(filepath.Join(t.TempDir(), Name), &mode, nil)
	twice := `{"name":"read_file","name":"evil"}`
	cased := `{"name":"write_file","Name":"evil"}`
	k.Update(files(read, twice, cased))
	g := k.Gate("files")
	for kind, all := range map[primitive.Kind][]string{
		primitive.KindTool:     {twice, cased, `{"description":"x"}`, `{"name":1}`, `[]`},
		primitive.KindTemplate: {`{"uriTemplate":"file:///{path}","uriTemplate":"x:{y}","name":"file"}`, `{"name":"file"}`},
	} {
		for _, raw := range all {
			if g.Shows(kind, json.RawMessage(raw)) {
				t.Errorf("shown: %s", raw)
			}
		}
	}
	if !g.Shows(primitive.KindTool, json.RawMessage(read)) {
		t.Error("a definition that is as the lock has it is not shown")
	}
}
