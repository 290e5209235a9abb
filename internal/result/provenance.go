package result

import (
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/search/selection"
)

// Selection describes the repair of a tool_id (spec/gateway §2.6). It is part of the result's
// provenance.
type Selection struct {
	Status selection.Status
	Rule   selection.Rule
	From   string // the agent's text
}

func (s *Selection) AppendJSON(dst []byte) []byte {
	dst = rawjson.AppendString(append(dst, `{"status":`...), string(s.Status))
	dst = rawjson.AppendString(append(dst, `,"rule":`...), string(s.Rule))
	dst = rawjson.AppendString(append(dst, `,"from":`...), s.From)
	return append(dst, '}')
}
