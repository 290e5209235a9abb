package result

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// docKind is what the bytes of a held-back part turn out to be.
type docKind uint8

const (
	docText docKind = iota
	docJSON
	docTable
)

// doc describes a part that is held back, for a model that decides what to
// read of it.
type doc struct {
	kind      docKind
	mediaType string
	chars     int
	rows      int      // of a table
	headline  string   // one line: what it is and how large
	structure []string // lines "name: type …"
	size      string   // the part of headline without names of the server; "" if it has none
	types     string   // of a table: the types of its columns
	columns   string   // of a table: "id string, count integer, …"
	samples   []string // of a table: the first rows, values shortened
	summary   string   // of text: its first paragraph
	facts     []string
	lead      []string // of text: its first lines or sentences
	named     []string // of text that starts with sentences: the facts behind them
	outline   []string // of Markdown: its headings
	ending    []string // of text: its last lines
	views     [][]byte
	// resourceURL is the top-level member of that name: a model needs it to
	// hand the data on, so it is never held back.
	resourceURL string

	clean func(string) string // removes secrets; never nil
	make  Maker               // makes copies
}

// describe looks at data, which is text of some kind. opts add to what counts as a table. clean
// removes secrets from the description before anything is cut. m makes a copy of data where one is needed.
func describe(data []byte, opts tables.DetectOptions, clean func(string) string, m Maker) doc {
	d := doc{mediaType: "text/plain", chars: runeCount(data), clean: clean, make: m}
	d.look(data, opts)
	d.tidy()
	return d
}

// describeTableFile describes a file of Arrow or Parquet. Its error says why it is no table.
func describeTableFile(mime string, data []byte, opts tables.Options, clean func(string) string, m Maker) (doc, error) {
	t, err := tables.Detect(data, tables.DetectOptions{Options: opts})
	if err != nil {
		return doc{}, err
	}
	d := doc{clean: clean, make: m}
	d.views = [][]byte{appendTableView(nil, d.describeTable(t, mime))}
	d.tidy()
	return d, nil
}

// tidy removes secrets and hidden text.
func (d *doc) tidy() {
	clean := d.clean
	d.columns, d.resourceURL = clean(d.columns), visible.Text(d.resourceURL)
	if d.views = slices.DeleteFunc(d.views, hides); len(d.views) == 0 {
		d.views = [][]byte{[]byte(`{"type":"head","chars":2000}`)}
	}
	for _, lines := range [][]string{d.structure, d.samples, d.facts, d.named} {
		for i := range lines {
			lines[i] = clean(lines[i])
		}
	}
}

// hides reports whether a JSON text has hidden text in its strings: a name without it is another name.
func hides(selector []byte) bool {
	_, kinds, _ := seen(selector)
	return kinds != 0
}

func (d *doc) look(data []byte, opts tables.DetectOptions) {
	d.resourceURL = resourceURLOf(bytes.TrimSpace(data))
	if t, mediaType := detectRows(data, opts); t != nil {
		d.describeRows(t, mediaType)
		return
	}
	if body := bytes.TrimSpace(data); len(body) > 0 && (body[0] == '{' || body[0] == '[') && rawjson.Valid(body) == nil {
		if t := tableInside(body, opts.Options); t != nil {
			d.describeInside(body, t)
			return
		}
		d.describeJSON(body)
		return
	}
	flat := d.make.unifyBreaks(data)
	breaks := bytes.Count(flat, []byte{'\n'})
	if breaks > 0 { // between names and values
		if t := csvTable(data, opts); t != nil {
			d.describeCSV(t)
			return
		}
	}
	d.describeText(stringOf(data), stringOf(flat), breaks)
}

// stringOf returns data as a string that is not a copy, which may be hundreds of megabytes. data must
// not change.
func stringOf(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// Types of JSON values as a set: a column may hold several.
const (
	typeString = 1 << iota
	typeInteger
	typeNumber
	typeBoolean
	typeObject
	typeArray
	typeNull
)

var typeNames = [...]string{"string", "integer", "number", "boolean", "object", "array", "null"}

func typeOf(v []byte) int {
	switch v[0] {
	case '"':
		return typeString
	case '{':
		return typeObject
	case '[':
		return typeArray
	case 't', 'f':
		return typeBoolean
	case 'n':
		return typeNull
	}
	if bytes.ContainsAny(v, ".eE") {
		return typeNumber
	}
	return typeInteger
}

func typeNamesOf(set int) string {
	if set&typeNumber != 0 {
		set &^= typeInteger
	}
	var names []string
	for i, name := range typeNames {
		if set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

type column struct {
	name  string
	types int
}

// maxColumns bounds how many columns are looked at; a table with more is told
// with a "+".
const maxColumns = 512

const (
	maxColumnsChars = 600
	maxSampleChars  = 220
	maxValueChars   = 32
	sampleRows      = 3
	maxNameChars    = 60
	maxStructure    = 30
)

// describeTable tells the columns and the first rows of a table. Only the first maxColumns columns
// are looked at.
func (d *doc) describeTable(t *tables.Table, mediaType string) (columns []column) {
	d.kind = docTable
	d.mediaType = mediaType
	d.rows = t.Len()
	v := t.View()
	names := v.Columns()
	all := len(names)
	names = names[:min(all, maxColumns)]
	for _, name := range names {
		columns = append(columns, column{name: name})
	}
	v.Project(names).Each(func(_ int, values [][]byte) bool {
		for i, value := range values {
			if len(value) > 0 {
				columns[i].types |= typeOf(value)
			}
		}
		return true
	})
	d.describeColumns(t.Len(), columns, len(columns) < all)
	for i := range min(sampleRows, t.Len()) {
		if row, err := d.row(v, i); err == nil {
			d.samples = append(d.samples, d.sample(row))
		}
	}
	return columns
}

// row returns row i of a view, as a copy if it is small.
func (d *doc) row(v tables.View, i int) ([]byte, error) {
	stored := v.Table().Row(v.ID(i))
	if len(stored) <= memory.Free {
		return v.AppendRow(nil, i), nil
	}
	return d.make(stored, func(w io.Writer) error {
		_, err := v.Slice(i, i+1).WriteNDJSON(w)
		return err
	})
}

// describeRows tells of a table of JSON objects, and where in the document its rows stand.
func (d *doc) describeRows(t *tables.Table, mediaType string) {
	columns := d.describeTable(t, mediaType)
	if path := t.Path(); path != "" && path != "$" {
		d.headline += " at " + path
	}
	if len(columns) > 0 {
		d.views = append(d.views, appendTableView(nil, columns))
	}
	d.views = append(d.views, appendRowsView(nil, 0, min(20, t.Len())))
	if t.Path() != "" || mediaType == mediaNDJSON { // else no path leads to a row
		d.views = append(d.views, append(rawjson.AppendString([]byte(`{"type":"json_path","path":`), rowPath(t, 0)), '}'))
	}
}

// describeColumns tells how large a table is and what its columns are. more says
// that there are others.
func (d *doc) describeColumns(rows int, columns []column, more bool) {
	plus := ""
	if more {
		plus = "+"
	}
	d.headline = "table: " + text.Plural(rows, "row") + " × " + strconv.Itoa(len(columns)) + plus + " column"
	if len(columns) != 1 {
		d.headline += "s"
	}
	d.size, d.types = d.headline, columnTypes(columns)
	d.facts = append(d.facts, "rows: "+strconv.Itoa(rows), "columns: "+strconv.Itoa(len(columns))+plus)
	var list strings.Builder
	chars := 0
	for i, c := range columns {
		name, types := tables.NameText(text.Line(text.Fit(c.name, maxNameChars), maxNameChars)), typeNamesOf(c.types)
		if len(d.facts) < maxFacts {
			d.facts = append(d.facts, name+": "+types)
		}
		entry := name + " " + types
		if chars += utf8.RuneCountInString(entry) + 2; chars > maxColumnsChars {
			list.WriteString(", … and " + strconv.Itoa(len(columns)-i) + plus + " more")
			break
		}
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(entry)
	}
	d.columns = list.String()
}

// columnTypes returns the types of columns, without their names.
func columnTypes(columns []column) string {
	var types []string
	for _, c := range columns[:min(len(columns), maxStructure)] {
		types = append(types, typeNamesOf(c.types))
	}
	return strings.Join(types, ", ")
}

// viewColumns is how many columns the suggested view of a table has.
const viewColumns = 3

// appendTableView appends a selector of a table's first columns.
func appendTableView(dst []byte, columns []column) []byte {
	dst = append(dst, `{"type":"table"`...)
	n := 0
	for _, c := range columns {
		if len(c.name) > maxNameChars || c.name == tables.RowID {
			continue
		}
		if n == 0 {
			dst = append(dst, `,"columns":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = rawjson.AppendString(dst, c.name)
		if n++; n == viewColumns {
			break
		}
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return append(dst, `,"limit":20}`...)
}

// resourceURLOf is the resource_url of a document, also below "result", "" where
// there is none.
func resourceURLOf(body []byte) string {
	if len(body) == 0 || body[0] != '{' || !rawjson.Contains(body, "resource_url") {
		return ""
	}
	var f [2][]byte
	if rawjson.Fields(body, []string{"resource_url", "result"}, f[:]) != nil {
		return ""
	}
	if len(f[0]) > 0 && f[0][0] == '"' {
		return text.Fit(rawjson.Text(f[0]), maxURLChars)
	}
	switch {
	case rawjson.IsObject(f[1]):
		return text.Fit(rawjson.Text(rawjson.Get(f[1], "resource_url")), maxURLChars)
	case len(f[1]) > 0 && f[1][0] == '"':
		inner := bytes.TrimSpace([]byte(rawjson.Text(f[1])))
		if rawjson.IsObject(inner) {
			return text.Fit(rawjson.Text(rawjson.Get(inner, "resource_url")), maxURLChars)
		}
	}
	return ""
}

// maxURLChars bounds a resource_url that is shown.
const maxURLChars = 500

// sample renders a row in at most about maxSampleChars characters: long values
// are shortened, what finds no room is "…".
func (d *doc) sample(row []byte) string {
	b := []byte{'{'}
	chars := 2
	// The row has been checked: there is no error to see here.
	_ = rawjson.EachMember(row, func(m rawjson.Member) bool {
		key, value := rawjson.Quote(text.Fit(string(m.Key), maxNameChars)), d.shorten(m.Value, maxValueChars)
		more := len(b) > 1
		if chars += utf8.RuneCount(key) + utf8.RuneCountInString(value) + 2; chars > maxSampleChars {
			if more {
				b = append(b, ',')
			}
			b = append(b, "…"...)
			return false
		}
		if more {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), value...)
		return true
	})
	return string(append(b, '}'))
}

// headOf returns the text of a JSON string, or its beginning. It is far longer than what is shown, so that no half
// of a secret is shown.
func headOf(v []byte) string {
	if len(v) <= maxHead {
		return rawjson.Text(v)
	}
	var h head
	_ = rawjson.WriteText(&h, v) // what it has written by then is the beginning
	return string(h)
}

const maxHead = 32 << 10

// head keeps what is written until it has maxHead bytes.
type head []byte

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	if *h = append(*h, p...); len(*h) >= maxHead {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// shorten renders a value in at most limit characters or a little more.
func (d *doc) shorten(v []byte, limit int) string {
	if len(v) <= limit {
		return string(compact(nil, v))
	}
	switch v[0] {
	case '"':
		return string(rawjson.Quote(text.Line(d.clean(headOf(v)), limit)))
	case '{':
		return "{…}"
	case '[':
		return "[…]"
	}
	return text.Cut(string(v), limit) + "…"
}

func (d *doc) describeJSON(body []byte) {
	d.kind = docJSON
	d.mediaType = mediaJSON
	if body[0] == '[' {
		d.describeArray(body)
		return
	}
	keys := 0
	var small, large []string
	// body is valid: there is no error to see here.
	_ = rawjson.EachMember(body, func(m rawjson.Member) bool {
		keys++
		key := string(m.Key)
		if keys <= maxStructure {
			d.structure = append(d.structure, text.Line(text.Fit(key, maxNameChars), maxNameChars)+": "+describeValue(m.Value))
		}
		if len(key) <= maxNameChars {
			if len(m.Value) <= 500 {
				small = append(small, key)
			} else {
				large = append(large, key)
			}
		}
		return true
	})
	d.headline = "JSON object with " + text.Plural(keys, "key") + ", " + text.Plural(d.chars, "character")
	for _, line := range d.structure[:min(len(d.structure), maxFacts)] {
		if utf8.RuneCountInString(line) < maxFactChars {
			d.facts = append(d.facts, line)
		}
	}
	if keys > maxStructure {
		d.structure = append(d.structure, "… and "+strconv.Itoa(keys-maxStructure)+" more keys")
	}
	for _, key := range large[:min(2, len(large))] {
		path := "$" + rawjson.PathStep(key)
		if v := rawjson.Get(body, key); len(v) > 0 && v[0] == '[' {
			path += "[0:5]"
		}
		d.views = append(d.views, append(rawjson.AppendString([]byte(`{"type":"json_path","path":`), path), '}'))
	}
	if len(small) > 0 {
		view := []byte(`{"type":"json_keys","keys":[`)
		for i, key := range small[:min(5, len(small))] {
			if i > 0 {
				view = append(view, ',')
			}
			view = rawjson.AppendString(view, key)
		}
		d.views = append(d.views, append(view, ']', '}'))
	}
	if len(d.views) == 0 {
		d.views = append(d.views, []byte(`{"type":"head","chars":2000}`))
	}
}

func (d *doc) describeArray(body []byte) {
	n, types := 0, 0
	_ = rawjson.EachElement(body, func(v []byte) bool {
		if n < sampleRows {
			d.samples = append(d.samples, text.Fit(describeValue(v), maxSampleChars))
		}
		n++
		types |= typeOf(v)
		return true
	})
	d.headline = "JSON array of " + strconv.Itoa(n) + " (" + typeNamesOf(types) + "), " + text.Plural(d.chars, "character")
	d.facts = []string{"items: " + strconv.Itoa(n), "types: " + typeNamesOf(types)}
	d.views = append(d.views, []byte(`{"type":"json_path","path":"$[0:10]"}`), []byte(`{"type":"head","chars":2000}`))
}

// describeValue says in a few words what a value is: its type, its length, and
// the value itself where it is short.
func describeValue(v []byte) string {
	switch v[0] {
	case '"':
		if n := stringChars(v); n > maxNameChars {
			return "string of " + strconv.Itoa(n) + " characters"
		}
		return "string " + string(rawjson.Quote(rawjson.Text(v)))
	case '{':
		n := 0
		var keys []string
		_ = rawjson.EachMember(v, func(m rawjson.Member) bool {
			if n++; n <= 8 {
				keys = append(keys, text.Line(text.Fit(string(m.Key), maxValueChars), maxValueChars))
			} else if n == 9 {
				keys = append(keys, "…")
			}
			return true
		})
		return "object with " + text.Plural(n, "key") + " {" + strings.Join(keys, ", ") + "}"
	case '[':
		n, types := 0, 0
		var first []byte
		_ = rawjson.EachElement(v, func(e []byte) bool {
			if n++; n == 1 {
				first = e
			}
			types |= typeOf(e)
			return true
		})
		content := "array of " + strconv.Itoa(n)
		if n > 0 {
			content += " (" + typeNamesOf(types) + ")"
			if types == typeObject {
				content += ", first: " + describeValue(first)
			}
		}
		return text.Fit(content, 160)
	}
	return typeNamesOf(typeOf(v)) + " " + text.Cut(string(v), maxNameChars)
}

// countLines counts lines; a line break at the very end starts no new one.
func countLines(data string) int {
	n := strings.Count(data, "\n")
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

func appendRowsView(dst []byte, start, end int) []byte {
	dst = append(dst, `{"type":"rows","start":`...)
	dst = strconv.AppendInt(dst, int64(start), 10)
	dst = append(dst, `,"end":`...)
	dst = strconv.AppendInt(dst, int64(end), 10)
	return append(dst, '}')
}

// compact appends v without white space between its tokens.
func compact(dst, v []byte) []byte {
	buf := bytes.NewBuffer(dst)
	if json.Compact(buf, v) != nil {
		return append(dst, v...)
	}
	return buf.Bytes()
}
