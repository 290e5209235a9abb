package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/rawjson"
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
	var texts [][]byte
	if rawjson.IsArray(content) {
		var bad error
		err := rawjson.EachElement(content, func(block []byte) bool {
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
		if err = errors.Join(bad, err); err != nil {
			return nil, err
		}
	}
	switch {
	case len(texts) == 1:
		t, err := table.Detect(texts[0], opts)
		if err == nil || why == nil {
			return t, err
		}
	case len(texts) > 1:
		t, err := table.Blocks(texts, opts.Options)
		if errors.Is(err, table.ErrNotTable) || errors.Is(err, rawjson.ErrSyntax) {
			return nil, fmt.Errorf("%w: its %d blocks of text are no rows", table.ErrNotTable, len(texts))
		}
		return t, err
	case why == nil:
		why = fmt.Errorf("%w: it has no text", table.ErrNotTable)
	}
	return nil, why
}
