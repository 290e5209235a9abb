package table

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/weir-mcp/weir/rawjson"
)

// WriteCSV writes the view as comma-separated values, the names of the columns
// first. Strings stand without their quotes and escapes, what is absent or null
// is empty, and everything else stands as it is written in JSON, nested values
// included. It returns how many bytes w took.
func (v View) WriteCSV(w io.Writer) (int64, error) {
	if v.t == nil {
		return 0, nil
	}
	count := &counter{w: w}
	out := csv.NewWriter(count)
	outs := v.shown()
	record := make([]string, len(outs))
	for k, o := range outs {
		record[k] = o.name
	}
	err := out.Write(record)
	r := v.reader(outs)
	for i := 0; err == nil && i < v.Len(); i++ {
		for k, value := range r.load(i) {
			record[k] = plainText(value)
		}
		// A single empty column would be an empty line, which readers pass over.
		if len(record) == 1 && record[0] == "" {
			out.Flush()
			_, err = io.WriteString(count, "\"\"\n")
			continue
		}
		err = out.Write(record)
	}
	out.Flush()
	return count.n, wrapWrite(errors.Join(err, out.Error()))
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// plainText is a value as text: without quotes, and empty for null.
func plainText(value []byte) string {
	switch {
	case len(value) == 0 || value[0] == 'n':
		return ""
	case value[0] == '"':
		return rawjson.Text(value)
	}
	return string(value)
}

// fromCSV reads comma-separated values. A column is of numbers where all its
// fields that are not empty are numbers as JSON writes them, without exponent;
// else it is of strings. An empty field of a column of numbers is absent.
func fromCSV(data []byte, opts Options) (*Table, error) {
	var header []string
	var numbers, filled []bool
	rows := 0
	err := eachRecord(data, func(record []string) error {
		if header == nil {
			header = append(header, record...)
			if len(header) < 2 {
				return fmt.Errorf("%w: comma-separated values need two columns", ErrNotTable)
			}
			seen := map[string]bool{}
			for _, name := range header {
				if name == "" || seen[name] {
					return fmt.Errorf("%w: the first line names no columns: %q is empty or stands twice", ErrNotTable, name)
				}
				seen[name] = true
			}
			numbers, filled = make([]bool, len(header)), make([]bool, len(header))
			for i := range numbers {
				numbers[i] = true
			}
			return nil
		}
		rows++
		for i, field := range record {
			if field != "" {
				filled[i] = true
				numbers[i] = numbers[i] && isPlainNumber(field)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, fmt.Errorf("%w: comma-separated values without a row", ErrNotTable)
	}
	b := NewBuilder(opts, nil)
	var row []byte
	var skipped bool
	err = eachRecord(data, func(record []string) error {
		if !skipped {
			skipped = true
			return nil
		}
		row = append(row[:0], '{')
		for i, field := range record {
			number := numbers[i] && filled[i]
			if number && field == "" {
				continue
			}
			if len(row) > 1 {
				row = append(row, ',')
			}
			row = append(rawjson.AppendString(row, header[i]), ':')
			if number {
				row = append(row, field...)
			} else {
				row = rawjson.AppendString(row, field)
			}
		}
		return b.Append(append(row, '}'))
	})
	if err != nil {
		return nil, err
	}
	return b.Table()
}

// eachRecord calls f with each line's fields, which are f's during the call.
func eachRecord(data []byte, f func([]string) error) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.ReuseRecord = true
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotTable, err)
		}
		if err := f(record); err != nil {
			return err
		}
	}
}

func isPlainNumber(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return s[0] != '.' && rawjson.Valid([]byte(s)) == nil
}
