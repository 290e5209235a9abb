package result

import (
	"bytes"
	"mime"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/s2sp/plane"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// Media types of artifacts.
const (
	mediaJSON   = "application/json"
	mediaNDJSON = "application/x-ndjson"
	mediaCSV    = "text/csv"

	// paramRows is the parameter of mediaJSON with the configured path of the rows. Later readers
	// of the artifact need it, because they do not know the server's configuration.
	paramRows = "rows"
)

// abstractOf returns the rows of a resource tool's answer, or nil if data is not such an answer.
func abstractOf(data []byte) []byte {
	if len(data) == 0 || data[0] != '{' || !rawjson.Contains(data, plane.ParamDomains) {
		return nil // a search is cheaper than parsing all members
	}
	var f [3][]byte
	if rawjson.Fields(data, []string{"abstract", "abstract_domains", "total_rows"}, f[:]) != nil || !rawjson.IsArray(f[0]) || f[1] == nil || f[2] == nil {
		return nil
	}
	return f[0]
}

// TableOptions returns the options to read an artifact of a media type as a table.
func TableOptions(mediaType string, data func() []byte) tables.DetectOptions {
	if mediaType == mediaNDJSON {
		return tables.DetectOptions{}
	}
	opts := jsonOptions(data())
	opts.CSV = opts.Paths == nil
	opts.Inside = true
	if _, params, err := mime.ParseMediaType(mediaType); err == nil && params[paramRows] != "" {
		opts.Paths = append(opts.Paths, params[paramRows])
	}
	return opts
}

// jsonOptions returns the options to read a JSON document as a table. In a resource tool's answer,
// which has other members, the rows are the abstract.
func jsonOptions(data []byte) tables.DetectOptions {
	if abstractOf(bytes.TrimSpace(data)) != nil {
		return tables.DetectOptions{Options: tables.Options{KeepRowID: true}, Paths: []string{"abstract"}}
	}
	return tables.DetectOptions{}
}

// detectRows returns the rows of JSON objects in data, with the media type to store data under, or
// nil. It tries the paths in opts last.
func detectRows(data []byte, opts tables.DetectOptions) (t *tables.Table, mediaType string) {
	own := jsonOptions(data)
	own.Grow = opts.Grow
	if t, err := tables.Detect(data, own); err == nil && t.Len() > 0 {
		if t.Path() == "" && rawjson.Valid(bytes.TrimSpace(data)) != nil {
			return t, mediaNDJSON
		}
		return t, mediaJSON
	}
	if !rawjson.IsObject(bytes.TrimSpace(data)) {
		return nil, ""
	}
	for _, path := range opts.Paths {
		own.Paths = []string{path}
		if t, err := tables.Detect(data, own); err == nil && t.Len() > 0 {
			return t, mime.FormatMediaType(mediaJSON, map[string]string{paramRows: path})
		}
	}
	return nil, ""
}

// tableInside returns the one array of objects in an object, nil if there is none or several.
func tableInside(body []byte, opts tables.Options) *tables.Table {
	if body[0] != '{' {
		return nil
	}
	t, err := tables.Detect(body, tables.DetectOptions{Options: opts, Inside: true})
	if err != nil || t.Len() < 2 || t.Path() == "" {
		return nil
	}
	return t
}

// maxAround bounds the members that are told of around a table.
const maxAround = 10

// describeInside tells of the table in an object, and of the members around it.
func (d *doc) describeInside(body []byte, t *tables.Table) {
	d.describeRows(t, mediaJSON)
	keys := 0
	_ = rawjson.EachMember(body, func(m rawjson.Member) bool {
		if keys++; keys <= maxAround {
			key := string(m.Key)
			if path := "$" + rawjson.PathStep(key); t.Path() != path && (key != "resource_url" || d.resourceURL == "") {
				d.structure = append(d.structure, text.Line(text.Fit(key, maxNameChars), maxNameChars)+": "+describeValue(m.Value))
			}
		}
		return true
	})
	if keys > maxAround {
		d.structure = append(d.structure, "… and "+strconv.Itoa(keys-maxAround)+" more keys")
	}
	d.headline += ", in a JSON object with " + text.Plural(keys, "key") + ", " + text.Plural(d.chars, "character")
}

// jsonRows returns the artifact's rows of JSON objects, nil if it has none.
func (v *viewing) jsonRows() *tables.Table {
	opts := TableOptions(v.artifact.MediaType, func() []byte { return v.data })
	opts.CSV, opts.Options.Grow = false, growing(v.meter).Grow
	t, err := tables.Detect(v.data, opts)
	if err != nil || t.Len() == 0 {
		return nil
	}
	return t
}

// lineRows returns the JSON objects that follow each other in data, or nil if data has other
// content.
func lineRows(data []byte, opts tables.Options) *tables.Table {
	t, err := tables.NDJSON(data, opts)
	if err != nil || t.Len() < 2 {
		return nil
	}
	return t
}

// rowPath returns the JSONPath of row i of a table.
func rowPath(t *tables.Table, i int) string { return rowPathAt(t, strconv.Itoa(i)) }

// rowPathAt is rowPath for a formatted index.
func rowPathAt(t *tables.Table, index string) string {
	path := t.Path()
	if path == "" {
		path = "$" // json_path reads consecutive rows as an array
	}
	if at := strings.LastIndex(path, "[*]"); at >= 0 && strings.Count(path[:at], "'")%2 == 0 {
		return path[:at] + "[" + index + "]" + path[at+len("[*]"):]
	}
	return path + "[" + index + "]"
}
