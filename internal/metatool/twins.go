package metatool

import (
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text"
)

// twins groups cards of tools that several servers offer alike: with the same name, arguments and
// description. The first card of a group stays, and same has the entries of the group by its id, the first one
// included.
func twins(from *catalog.Catalog, cards []catalog.Card) (kept []catalog.Card, same map[string][]*catalog.Entry) {
	type likeness struct{ name, hash, description string }
	first := map[likeness]*catalog.Entry{}
	for i := range cards {
		e, ok := from.Lookup(cards[i].ID)
		if !ok || e.Kind != primitive.KindTool {
			kept = append(kept, cards[i])
			continue
		}
		key := likeness{e.RawName, e.Hash8, e.Description}
		lead := first[key]
		if lead == nil || lead.Upstream == e.Upstream {
			if lead == nil {
				first[key] = e
			}
			kept = append(kept, cards[i])
			continue
		}
		if same == nil {
			same = map[string][]*catalog.Entry{}
		}
		if same[lead.ID] == nil {
			same[lead.ID] = []*catalog.Entry{lead}
		}
		same[lead.ID] = append(same[lead.ID], e)
	}
	return kept, same
}

// Bounds of the differences that a card tells of one twin.
const (
	maxDifference = 60 // characters
	maxTwins      = 6
)

// appendTwins appends the ids of the other tools of a group, and where each differs from the first:
//
//	— this one: /srv/a; same tool: files-b:read_file#1a2b3c4d (/srv/b)
func appendTwins(dst []byte, from *catalog.Catalog, group []*catalog.Entry) []byte {
	if len(group) == 0 {
		return dst
	}
	differences := make([]string, len(group))
	for i, e := range group {
		differences[i] = difference(from, e, group)
	}
	dst = append(dst, " —"...)
	if differences[0] != "" {
		dst = append(append(append(dst, " this one: "...), differences[0]...), ';')
	}
	dst = append(dst, " same tool:"...)
	for i, e := range group[1:] {
		if i == maxTwins {
			dst = append(dst, ", …"...)
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, ' '), e.ID...)
		if differences[i+1] != "" {
			dst = append(append(append(dst, " ("...), differences[i+1]...), ')')
		}
	}
	return dst
}

// difference returns the marks of a tool's server that not all servers of a group have: its title, the tags of
// its entry and the folders that its configuration names.
func difference(from *catalog.Catalog, e *catalog.Entry, group []*catalog.Entry) string {
	marks := func(e *catalog.Entry) []string {
		title, _ := from.About(e.Upstream)
		return slices.Concat([]string{title}, e.Tags, from.Folders(e.Upstream))
	}
	var own []string
	for _, mark := range marks(e) {
		shared := !slices.ContainsFunc(group, func(other *catalog.Entry) bool { return !slices.Contains(marks(other), mark) })
		if mark = text.Line(mark, maxDifference); mark != "" && !shared {
			own = append(own, mark)
		}
	}
	return text.Fit(strings.Join(own, ", "), maxDifference)
}
