package result

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// abstractOf returns the rows of a resource tool's answer, nil where data is none.
func abstractOf(data []byte) []byte {
	if len(data) == 0 || data[0] != '{' || !bytes.Contains(data, []byte(plane.ParamDomains)) {
		return nil // most are none, and a search is cheaper than a look at all members
	}
	var f [3][]byte
	if rawjson.Fields(data, []string{"abstract", "abstract_domains", "total_rows"}, f[:]) != nil || !rawjson.IsArray(f[0]) || f[1] == nil || f[2] == nil {
		return nil
	}
	return f[0]
}

// TableOptions say how held-back bytes are read as a table.
func TableOptions(mediaType string, data func() []byte) tables.DetectOptions {
	if mediaType == "application/x-ndjson" {
		return tables.DetectOptions{}
	}
	if abstractOf(bytes.TrimSpace(data())) != nil {
		return tables.DetectOptions{Options: tables.Options{KeepRowID: true}, Paths: []string{"abstract"}}
	}
	return tables.DetectOptions{CSV: true}
}
