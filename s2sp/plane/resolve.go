package plane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
)

// ErrInput: a parameter of a consumer tool is invalid.
var ErrInput = errors.New("bad parameter")

// Source fetches bodies. A *Fetcher is one. It may be called concurrently.
type Source interface {
	// Fetch returns the rows and columns asked for, all where the lists are
	// empty, as a table that has its _row_id column.
	Fetch(ctx context.Context, resourceURL string, rowIDs []int, columns []string) (*table.Table, error)
}

var _ Source = (*Fetcher)(nil)

// Input is the four string parameters that a consumer tool takes.
type Input struct {
	AbstractData  string `json:"abstract_data"`
	ResourceURL   string `json:"resource_url,omitempty"`
	BodyData      string `json:"body_data,omitempty"`
	ColumnMapping string `json:"column_mapping,omitempty"`
}

// Resolve makes rows of a consumer tool's parameters (spec/tables §6): the rows of abstract_data, each with the fields of the body that has the
// same _row_id, which comes from resource_url if there is one and from body_data
// if not. column_mapping renames columns on both sides before they meet. Where
// both have a field, abstract's counts; rows come in abstract's order; rows
// without a _row_id are left out.
//
// A warning names columns that column_mapping makes one.
//
// Errors wrap ErrInput, or come from the source.
func Resolve(ctx context.Context, in Input, from Source) (rows *table.Table, warnings []string, err error) {
	abstract, err := parseRows("abstract_data", in.AbstractData)
	if err != nil {
		return nil, nil, err
	}
	mapping, err := parseMapping(in.ColumnMapping)
	if err != nil {
		return nil, nil, err
	}
	ids := RowIDs(abstract.View())
	var body table.View
	switch resourceURL := strings.TrimSpace(in.ResourceURL); {
	case abstract.Len() == 0:
	case resourceURL != "":
		if len(ids) == 0 {
			break // nothing of the body would be kept, and the URL works only once
		}
		t, err := from.Fetch(ctx, resourceURL, ids, nil)
		if err != nil {
			return nil, nil, err
		}
		body = t.View()
	default:
		t, err := parseRows("body_data", in.BodyData)
		if err != nil {
			return nil, nil, err
		}
		body = t.View()
	}
	merged, err := table.Merge(abstract.View().Rename(mapping), body.Rename(mapping))
	if err != nil {
		return nil, nil, fmt.Errorf("merging the body into %d rows: %w", abstract.Len(), err)
	}
	return merged, joined(mapping, abstract.View(), body), nil
}

// joined returns a warning for each name that column_mapping gives to several columns: a row that has
// values in more than one of them keeps one value.
func joined(mapping map[string]string, views ...table.View) (warnings []string) {
	if len(mapping) == 0 {
		return nil
	}
	from := map[string][]string{} // old names by new ones
	seen := map[string]bool{table.RowID: true}
	for _, v := range views {
		for _, old := range v.Columns() {
			if seen[old] {
				continue
			}
			seen[old] = true
			name, ok := mapping[old]
			if !ok || name == table.RowID {
				name = old
			}
			from[name] = append(from[name], old)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if all := from[name]; len(all) > 1 {
			warnings = append(warnings, fmt.Sprintf("column_mapping makes one column %.100q of %s: a row with values in more than one of them keeps one value, that of abstract_data first", name, table.NamesText(all, 10)))
		}
	}
	return warnings
}

func parseRows(param, text string) (*table.Table, error) {
	data := []byte(strings.TrimSpace(text))
	if len(data) == 0 || string(data) == "null" {
		data = []byte("[]")
	}
	t, err := table.Index(data, table.Options{KeepRowID: true})
	if err != nil {
		return nil, fmt.Errorf("%w: %s must be a JSON array of rows, such as [{\"_row_id\": 0, …}]: %w", ErrInput, param, err)
	}
	// Rows without a number are left out by merging, so they must not get one.
	if t.Len() > 0 && !t.Has(table.RowID) {
		return table.Index([]byte("[]"), table.Options{KeepRowID: true})
	}
	return t, nil
}

// AbstractIDs lists the row numbers that a consumer tool asks for, given its
// abstract_data.
func AbstractIDs(abstractData string) ([]int, error) {
	t, err := parseRows(ParamAbstract, abstractData)
	if err != nil {
		return nil, err
	}
	return RowIDs(t.View()), nil
}

// parseMapping reads column_mapping, a JSON object of new names by old ones;
// blank is none.
func parseMapping(text string) (map[string]string, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return nil, nil
	}
	mapping := map[string]string{}
	var failed error
	err := rawjson.EachMember([]byte(text), func(m rawjson.Member) bool {
		name, err := rawjson.String(m.Value)
		if err != nil {
			failed = fmt.Errorf("the new name of %q is %.40s", m.Key, m.Value)
			return false
		}
		mapping[string(m.Key)] = name
		return true
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, fmt.Errorf("%w: column_mapping must be a JSON object of strings, such as {\"old\": \"new\"}: %w", ErrInput, err)
	}
	return mapping, nil
}

// RowIDs lists the values of a view's _row_id column that are whole numbers.
func RowIDs(v table.View) []int {
	var ids []int
	v.Project([]string{table.RowID}).Each(func(_ int, values [][]byte) bool {
		if len(values) == 1 {
			if id, ok := rawjson.Int(values[0]); ok && id >= 0 {
				ids = append(ids, id)
			}
		}
		return true
	})
	return ids
}
