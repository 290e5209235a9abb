package result

import (
	"cmp"
	"strings"

	"github.com/weir-mcp/weir/internal/text"
)

// Bare descriptions have nothing that a server has written in its result: no names, no values, no media types. A model
// that reads one learns how large the result is and of which types, and views the parts that it needs.

// maxBareNames bounds the names of a schema in a bare description, in characters.
const maxBareNames = 400

// bare leaves only sizes and types in a description. names are those of the tool's schema.
func (d *doc) bare(names []string) {
	d.headline = cmp.Or(d.size, d.headline)
	d.structure, d.columns, d.samples, d.facts, d.lead, d.named, d.outline, d.ending = nil, "", nil, nil, nil, nil, nil, nil
	d.summary, d.resourceURL = d.headline, ""
	if d.types != "" {
		d.structure = append(d.structure, "types: "+d.types)
	}
	if len(names) > 0 {
		d.structure = append(d.structure, "names by its schema: "+text.Fit(strings.Join(names, ", "), maxBareNames))
	}
	d.views = [][]byte{[]byte(`{"type":"head","chars":2000}`)}
	if d.kind == docTable {
		d.views = [][]byte{appendRowsView(nil, 0, min(20, d.rows))}
	}
}

// bareResult is a result without the members that a server has written.
func bareResult(status string) []byte {
	if status == statusError {
		return []byte(`{"isError":true}`)
	}
	return []byte(`{}`)
}
