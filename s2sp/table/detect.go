package table

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// DetectOptions extend the forms that Detect accepts. Detect always accepts an array of objects, an
// object whose only member is such an array, NDJSON, and an object that names its columns once:
// columns with rows or data, or column by column as pandas writes. It accepts an Arrow stream or file,
// and a Parquet file as well; in a program that does not import package s2sp/columnar, these are an error that
// wraps errors.ErrUnsupported.
type DetectOptions struct {
	Options

	// Paths are further places of rows in an object, tried in order. "features" is the member
	// features, an array of objects, regardless of other members. "features[].properties" is the
	// member properties of each element of that array. Both find the rows of GeoJSON. Dots separate
	// nested members: "data.items".
	Paths []string
	// CSV accepts lines of comma-separated values: at least two columns, named by the first line,
	// and at least one row.
	CSV bool
	// Inside accepts an object that has exactly one array of objects, up to eight members deep.
	Inside bool
	// One accepts any other object as a table of one row.
	One bool
}

// Detect reads data as a table, or returns ErrNotTable. Where data has rows one after the other,
// the table's rows are slices of data, so the caller must not change it. Text before or after a
// table is not allowed. NaN, Infinity and -Infinity are read as null; see [Table.Nulled].
func Detect(data []byte, opts DetectOptions) (*Table, error) {
	if columnar.Is(data) {
		return fromColumnar(data, opts.Options)
	}
	return finite(data, opts.Options, func(data []byte) (*Table, error) { return detect(data, opts) })
}

func detect(data []byte, opts DetectOptions) (*Table, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: there is nothing", ErrNotTable)
	}
	switch data[0] {
	case '[':
		t, err := notTable(indexAt(data, "$", opts.Options))
		if errors.Is(err, ErrNotTable) {
			return asHeaded(data, opts.Options, false, err)
		}
		return t, err
	case '{':
		return notTable(detectObject(data, opts))
	}
	if opts.CSV {
		return notTable(fromCSV(data, opts.Options))
	}
	return nil, fmt.Errorf("%w: neither an array nor an object", ErrNotTable)
}

// notTable converts a JSON error to ErrNotTable. It keeps ErrTooLarge and ErrTooWide.
func notTable(t *Table, err error) (*Table, error) {
	if err == nil || errors.Is(err, ErrNotTable) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrTooWide) {
		return t, err
	}
	return nil, fmt.Errorf("%w: %w", ErrNotTable, err)
}

func detectObject(data []byte, opts DetectOptions) (*Table, error) {
	var only rawjson.Member
	members := 0
	err := rawjson.EachMember(data, func(m rawjson.Member) bool {
		members++
		only = m
		return members < 2
	})
	if err == nil && members == 1 && only.Value[0] == '[' {
		t, err := indexAt(only.Value, "$"+rawjson.PathStep(string(only.Key)), opts.Options)
		if errors.Is(err, ErrNotTable) {
			t, err = asHeaded(only.Value, opts.Options, false, err)
		}
		if !errors.Is(err, ErrNotTable) {
			return t, err
		}
	}
	for _, path := range opts.Paths {
		if t, err := atPath(data, path, opts.Options); !errors.Is(err, ErrNotTable) {
			return t, err
		}
	}
	if t, ok, err := asFramed(data, opts.Options); ok || err != nil {
		return t, err
	}
	t, err := ndjson(data, opts.Options)
	if err == nil && t.Len() < 2 && opts.Inside {
		if t, err := inside(data, opts.Options); err == nil || !opts.One || !errors.Is(err, ErrNotTable) {
			return t, err
		}
	}
	if err == nil && t.Len() < 2 && !opts.One {
		return nil, fmt.Errorf("%w: one object", ErrNotTable)
	}
	if err != nil && opts.One && rawjson.Valid(data) == nil {
		return Blocks([][]byte{data}, opts.Options)
	}
	return t, err
}

// indexAt is index for the array at a JSONPath.
func indexAt(array []byte, path string, opts Options) (*Table, error) {
	t, err := index(array, opts)
	if err == nil {
		t.path = path
	}
	return t, err
}

// jsonPath returns the JSONPath of members in a JSON document.
func jsonPath(start string, members []string) string {
	for _, name := range members {
		start += rawjson.PathStep(name)
	}
	return start
}

// atPath reads the rows at a path.
func atPath(data []byte, path string, opts Options) (*Table, error) {
	array, inner, nested := strings.Cut(path, "[]")
	members := strings.Split(array, ".")
	rows := rawjson.GetPath(data, members...)
	if !rawjson.IsArray(rows) {
		return nil, fmt.Errorf("%w: no array at %q", ErrNotTable, path)
	}
	if !nested || inner == "" {
		t, err := indexAt(rows, jsonPath("$", members), opts)
		if errors.Is(err, ErrNotTable) {
			return asHeaded(rows, opts, true, err)
		}
		return t, err
	}
	steps := strings.Split(strings.TrimPrefix(inner, "."), ".")
	b := NewBuilder(opts, nil)
	var failed error
	err := rawjson.EachElement(rows, func(element []byte) bool {
		row := rawjson.GetPath(element, steps...)
		if !rawjson.IsObject(row) {
			failed = fmt.Errorf("%w: no object at %q in element %d", ErrNotTable, path, b.Len())
			return false
		}
		failed = b.Append(row)
		return failed == nil
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	t, err := b.Table()
	if err == nil {
		t.path = jsonPath(jsonPath("$", members)+"[*]", steps)
	}
	return t, err
}

// NDJSON reads one JSON object per line and skips empty lines. A line ends with LF, CR LF or CR.
// NaN, Infinity and -Infinity are read as null; see [Table.Nulled].
func NDJSON(data []byte, opts Options) (*Table, error) {
	return finite(data, opts, func(data []byte) (*Table, error) { return ndjson(data, opts) })
}

func ndjson(data []byte, opts Options) (*Table, error) {
	x := newIndexer(opts)
	x.expect(len(data))
	for i := rawjson.SkipSpace(data, 0); i < len(data); {
		if x.t.rows > 0 && !bytes.ContainsAny(data[x.end:i], "\r\n") {
			return nil, fmt.Errorf("%w: row %d begins on the line of the one before", ErrNotTable, x.t.rows)
		}
		end, err := x.row(data, i)
		if err != nil {
			return nil, err
		}
		i = rawjson.SkipSpace(data, end)
	}
	return x.finish()
}

// Blocks reads one JSON object from each block. Some servers return a list as one text block per
// element.
func Blocks(blocks [][]byte, opts Options) (*Table, error) {
	b := NewBuilder(opts, nil)
	for _, block := range blocks {
		if !rawjson.IsObject(block) {
			return nil, fmt.Errorf("%w: row %d is not an object", ErrNotTable, b.Len())
		}
		if err := b.Append(block); err != nil {
			return nil, err
		}
	}
	return b.Table()
}
