package metatool

import (
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/search/selection"
	"github.com/weir-mcp/weir/internal/text"
)

// repair returns the only offered tool whose id differs from id only in case, or that lacks only its
// version or hash and is defined as it was shown, or nil. Another prefix is never accepted: after refund@1
// has been removed, it must not run refund@10.
func (st *sessionState) repair(from *catalog.Catalog, id string) (*catalog.Entry, *result.Selection) {
	if len(id) > 2*maxIDChars {
		return nil, nil
	}
	if e := st.offeredBare(from, id); e != nil {
		return e, &result.Selection{Status: selection.Repaired, Rule: selection.RuleBare, From: id}
	}
	s := selection.Validate(id, st.offeredIDs(from))
	if s.Status != selection.Repaired || s.Rule == selection.RulePrefix {
		return nil, nil
	}
	e, ok := from.Lookup(s.ID)
	if !ok || e.Kind != primitive.KindTool {
		return nil, nil
	}
	return e, &result.Selection{Status: s.Status, Rule: s.Rule, From: text.Line(id, maxIDChars)}
}

// maxIDChars is the length of the longest tool_id (spec/gateway §1.1).
const maxIDChars = 240
