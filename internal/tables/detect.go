package tables

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	_ "github.com/weir-mcp/weir/s2sp/columnar" // tables of servers and of commands in Arrow and Parquet
	"github.com/weir-mcp/weir/s2sp/table"
)

// tableOf returns the table in a tool's result: its structuredContent, its text, or one row per
// text block. The table does not share the result's bytes.
func tableOf(result json.RawMessage, opts table.DetectOptions) (*table.Table, error) {
	var content, structured []byte
	if err := rawjson.Scan(result, rawjson.Key("content", &content), rawjson.Key("structuredContent", &structured)); err != nil {
		return nil, err
	}
	var why error
	if rawjson.IsObject(structured) || rawjson.IsArray(structured) {
		own := opts
		own.CSV = false
		t, err := table.Detect(bytes.Clone(structured), own)
		if err == nil || !errors.Is(err, table.ErrNotTable) {
			return t, err
		}
		why = err
	}
	texts, err := textsIn(content)
	if err != nil {
		return nil, err
	}
	switch {
	case len(texts) == 1:
		t, err := table.Detect(texts[0], opts)
		if err == nil || why == nil || !rawjson.IsObject(texts[0]) {
			return t, err // of a text that is no object, a framework writes an object around it
		}
	case len(texts) > 1:
		t, err := table.Blocks(texts, opts.Options)
		if errors.Is(err, table.ErrNotTable) || errors.Is(err, rawjson.ErrSyntax) {
			return nil, fmt.Errorf("%w: its %d blocks of text are no rows", table.ErrNotTable, len(texts))
		}
		return t, err
	case why == nil:
		if file := fileIn(content); columnar.Is(file) {
			return table.Detect(file, opts)
		}
		why = fmt.Errorf("%w: it has no text", table.ErrNotTable)
	}
	return nil, why
}

// fileIn returns the bytes of the first embedded resource of a result's content that has some.
func fileIn(content []byte) (file []byte) {
	_ = rawjson.EachElement(content, func(block []byte) bool { // what is malformed has none
		if blob := rawjson.GetPath(block, "resource", "blob"); len(blob) > 2 && blob[0] == '"' {
			file, _ = base64.StdEncoding.DecodeString(rawjson.Text(blob))
		}
		return file == nil
	})
	return file
}

// textsIn returns the texts of a result's content.
func textsIn(content []byte) (texts [][]byte, err error) {
	if !rawjson.IsArray(content) {
		return nil, nil
	}
	var bad error
	err = rawjson.EachElement(content, func(block []byte) bool {
		if text := rawjson.Get(block, "text"); rawjson.Text(rawjson.Get(block, "type")) == "text" && len(text) > 0 && text[0] == '"' {
			var data []byte
			data, bad = rawjson.Unquote(text)
			if bytes.IndexByte(text, '\\') < 0 {
				data = bytes.Clone(data) // the rows outlive the result
			}
			texts = append(texts, bytes.TrimSpace(data))
		}
		return bad == nil
	})
	return texts, errors.Join(bad, err)
}

// maxHinted bounds the text in which another form of a table is looked for, for an error.
const maxHinted = 4 << 20

// settingFor returns what a result without a table seems to have, and the setting of its server that
// makes it one; "" if there is none.
func settingFor(raw json.RawMessage, upstream string, opts table.DetectOptions) string {
	texts, err := textsIn(rawjson.Get(raw, "content"))
	if err != nil || len(texts) != 1 || len(texts[0]) > maxHinted {
		return ""
	}
	text := texts[0]
	if !opts.CSV && table.BeginsAsCSV(text, 1, func(name string) bool { return name != "" }) {
		if _, err := table.Detect(text, table.DetectOptions{CSV: true}); err == nil {
			return fmt.Sprintf("comma-separated values, which mcpServers.%s.tables.csv: true makes a table", upstream)
		}
	}
	if !rawjson.IsObject(text) || rawjson.Valid(text) != nil {
		return ""
	}
	var names []string
	for _, a := range table.FindArrays(text) {
		if name, ok := strings.CutPrefix(a.Path, "$."); ok && a.Objects && !strings.ContainsAny(name, "[]\"") && len(names) < 3 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("an object with rows at %s, which mcpServers.%s.tables.paths: [%s] makes a table", strings.Join(names, ", "), upstream, names[0])
}
