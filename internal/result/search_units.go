package result

import (
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/text"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// maxSearchValues bounds how many values of JSON are searched one by one. Larger documents are
// searched by lines.
const maxSearchValues = 250_000

// searchUnits is what a search goes through, one text after the other.
type searchUnits struct {
	texts  []string
	noun   string      // of one of them
	path   string      // of row n, if they are rows
	places []jsonPlace // of values: where each is; else nil
}

// jsonPlace is where a value stands in a document.
type jsonPlace struct {
	step    string // from the parent
	parent  int    // among the places; -1 for the root
	valueAt int    // where the value starts in its text
}

// shown is unit n as it is shown, as a match, of which byte at is in sight, or as what stands around
// one.
func (u *searchUnits) shown(n, at int, match bool) string {
	if u.places == nil {
		if match {
			return strconv.Itoa(n) + ":" + window(u.texts[n], at)
		}
		return strconv.Itoa(n) + "-" + window(u.texts[n], 0)
	}
	valueAt := u.places[n].valueAt
	line := u.pathOf(n) + ": " + window(u.texts[n][valueAt:], max(at-valueAt, 0))
	if !match {
		return "  " + line
	}
	return line
}

// pathOf returns the JSONPath of value n.
func (u *searchUnits) pathOf(n int) string {
	path := ""
	for ; n >= 0; n = u.places[n].parent {
		path = u.places[n].step + path
	}
	return "$" + path
}

// stringBytes is the memory of a string in a list, without its text.
const stringBytes = 16

// rowUnits are the rows of a table. The error is m's.
func rowUnits(m *work.Meter, t *tables.Table) (*searchUnits, error) {
	u := &searchUnits{noun: "row", path: rowPathAt(t, "n")}
	if err := m.Take(int64(t.Len()) * stringBytes); err != nil {
		return nil, err
	}
	u.texts = make([]string, 0, t.Len())
	for _, row := range t.Rows() {
		if err := m.Take(int64(len(row))); err != nil {
			return nil, err
		}
		u.texts = append(u.texts, string(compact(nil, row)))
	}
	return u, nil
}

// jsonUnits are the values of a document, each behind its key as in printed JSON. It returns nil
// where there are too many. The error is m's.
func jsonUnits(m *work.Meter, body []byte) (*searchUnits, error) {
	w := unitWalk{meter: m, units: &searchUnits{noun: "value"}}
	w.within(body, -1)
	if w.err != nil || w.full {
		return nil, w.err
	}
	return w.units, nil
}

type unitWalk struct {
	meter *work.Meter
	units *searchUnits
	full  bool
	err   error
}

// within adds what is in a value. It reports whether to go on.
func (w *unitWalk) within(value []byte, parent int) bool {
	if w.err = w.meter.Spend(4 + int64(len(value))/8); w.err != nil {
		return false
	}
	switch value[0] {
	case '{':
		_ = rawjson.EachMember(value, func(m rawjson.Member) bool {
			key := string(m.Key)
			return w.add(string(rawjson.Quote(key))+": ", rawjson.PathStep(key), m.Value, parent)
		})
	case '[':
		i := 0
		_ = rawjson.EachElement(value, func(e []byte) bool {
			step := "[" + strconv.Itoa(i) + "]"
			i++
			return w.add("", step, e, parent)
		})
	}
	return w.err == nil && !w.full
}

// add adds a value and what is in it. It reports whether to go on.
func (w *unitWalk) add(key, step string, value []byte, parent int) bool {
	u := w.units
	if w.full = len(u.texts) == maxSearchValues; w.full {
		return false
	}
	if w.err = w.meter.Take(4*stringBytes + int64(len(key)+len(step)+len(value))); w.err != nil {
		return false
	}
	u.places = append(u.places, jsonPlace{step: step, parent: parent, valueAt: len(key)})
	if value[0] == '"' {
		value = rawjson.Quote(rawjson.Text(value)) // é, and not \u00e9
	}
	if value[0] != '{' && value[0] != '[' {
		u.texts = append(u.texts, key+string(value))
		return true
	}
	held := "{…}"
	if value[0] == '[' {
		held = "[" + text.Plural(countElements(value), "element") + "]"
	}
	u.texts = append(u.texts, key+held)
	return w.within(value, len(u.texts)-1)
}

// countElements returns how many elements an array has.
func countElements(array []byte) (n int) {
	_ = rawjson.EachElement(array, func([]byte) bool { n++; return true })
	return n
}
