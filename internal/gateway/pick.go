package gateway

import (
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/selection"
	"github.com/weir-mcp/weir/internal/text"
)

// Selection says how a tool_id that was not exact was understood
// (gateway-surface §2.6). It is in the result's provenance.
type Selection struct {
	Status selection.Status
	Rule   selection.Rule
	From   string // what the agent wrote
}

func (s *Selection) appendJSON(dst []byte) []byte {
	dst = rawjson.AppendString(append(dst, `{"status":`...), string(s.Status))
	dst = rawjson.AppendString(append(dst, `,"rule":`...), string(s.Rule))
	dst = rawjson.AppendString(append(dst, `,"from":`...), s.From)
	return append(dst, '}')
}

// repair returns the tool that an id stands for which is not exact: the one
// among those that this session was offered that differs from it in case only.
// A prefix is never taken for an id: when refund@1 has been removed, it must
// not run refund@10. The tool is nil where there is none, or more than one.
func (st *sessionState) repair(from *catalog.Catalog, id string) (*catalog.Entry, *Selection) {
	if len(id) > 2*maxIDChars {
		return nil, nil
	}
	s := selection.Validate(id, st.offeredIDs(from))
	if s.Status != selection.Repaired || s.Rule == selection.RulePrefix {
		return nil, nil
	}
	e, ok := from.Lookup(s.ID)
	if !ok || e.Kind != catalog.KindTool {
		return nil, nil
	}
	return e, &Selection{s.Status, s.Rule, text.Line(id, maxIDChars)}
}

// maxIDChars is the length of the longest tool_id (gateway-surface §1.1).
const maxIDChars = 240
