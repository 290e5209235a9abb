package artifact

import (
	"slices"
	"strings"
)

// Held is an artifact in the result of List.
type Held struct {
	Artifact
	// Table says that its rows have been counted: by its writer, or because it has been read as a
	// table.
	Table bool
	Rows  int
	// Columns are the columns of an artifact that was written as a table, or has been read as one.
	Columns []string
}

// List returns a principal's artifacts, newest first. It omits deposits, which have a token but no
// handle. Listing does not count as use. The result has at most Options.MaxCount artifacts.
func (s *Local) List(principal string) []Held {
	_, _ = s.ledger.lock() // a closed store holds nothing
	var (
		out  []Held
		kept []*content
	)
	if sp := s.ledger.spaces[principal]; sp != nil {
		for _, it := range sp.items {
			if it.single {
				continue
			}
			it.content.hold()
			out = append(out, Held{Artifact: it.Artifact})
			kept = append(kept, it.content)
		}
	}
	s.ledger.unlock()
	for i, c := range kept {
		c.describe(&out[i])
		c.drop()
	}
	slices.SortFunc(out, func(a, b Held) int {
		if d := b.Created.Compare(a.Created); d != 0 {
			return d
		}
		return strings.Compare(a.Handle, b.Handle)
	})
	return out
}

// describe fills in the known properties of the content as a table. It does not read the content.
func (c *content) describe(h *Held) {
	c.mu.Lock() // a table that was detected in a file goes with the file's mapping
	defer c.mu.Unlock()
	t := c.detected
	if c.rows != nil {
		t = c.rows
	} else if c.skeleton != nil {
		t = c.skeleton
	}
	if t == nil {
		h.Table, h.Rows = c.counted > 0, c.counted
		return
	}
	h.Table, h.Rows, h.Columns = true, t.Len(), t.Columns()
	for i, name := range h.Columns {
		h.Columns[i] = strings.Clone(name)
	}
}
