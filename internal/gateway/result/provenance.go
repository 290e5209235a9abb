package result

import (
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/selection"
)

// Selection says how a tool_id that was not exact was understood
// (spec/gateway §2.6). It is in the result's provenance.
type Selection struct {
	Status selection.Status
	Rule   selection.Rule
	From   string // what the agent wrote
}

func (s *Selection) AppendJSON(dst []byte) []byte {
	dst = rawjson.AppendString(append(dst, `{"status":`...), string(s.Status))
	dst = rawjson.AppendString(append(dst, `,"rule":`...), string(s.Rule))
	dst = rawjson.AppendString(append(dst, `,"from":`...), s.From)
	return append(dst, '}')
}
