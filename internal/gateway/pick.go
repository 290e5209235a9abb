package gateway

import (
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/selection"
	"github.com/weir-mcp/weir/internal/text"
)

// repair returns the tool that an id stands for which is not exact: the one
// among those that this session was offered that differs from it in case only.
// A prefix is never taken for an id: when refund@1 has been removed, it must
// not run refund@10. The tool is nil where there is none, or more than one.
func (st *sessionState) repair(from *catalog.Catalog, id string) (*catalog.Entry, *result.Selection) {
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
	return e, &result.Selection{Status: s.Status, Rule: s.Rule, From: text.Line(id, maxIDChars)}
}

// maxIDChars is the length of the longest tool_id (spec/gateway §1.1).
const maxIDChars = 240
