package columnar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Encoding is the metadata key of a string field whose values are JSON texts. Its value is then "json".
const Encoding = "weir:encoding"

// A Codec writes rows of JSON in columnar forms and reads them.
type Codec interface {
	// WriteArrow writes an Arrow IPC stream and returns the number of its bytes.
	WriteArrow(w io.Writer, rows Rows) (int64, error)
	// WriteParquet writes a Parquet file. It asks grow for its memory before it writes anything; nil allows all.
	WriteParquet(w io.Writer, rows Rows, grow func(bytes int64) error) (int64, error)
	// Read reads data, of which Is is true. Its error is an error of s, or wraps ErrForm.
	Read(data []byte, s Sink) error
	// CountArrow returns the number of rows of an Arrow stream, which it reads to its end.
	CountArrow(r io.Reader) (rows int, err error)
}

// Rows are rows to be written.
type Rows struct {
	Columns []string
	// Numbers are the columns that hold integers, even if there are no rows.
	Numbers []bool
	// Each calls f for each row, always the same rows, until f returns false. A value is JSON, or nil if the
	// row has none. It is valid as long as the rows; the slice is valid until f returns.
	Each func(f func(values [][]byte) bool)
}

// A Sink takes the rows that are read.
type Sink struct {
	// Grow is asked before more memory is used, and returns an error if there is none; nil allows all.
	Grow func(bytes int64) error
	// Row takes a row as a JSON object, in which NaN and Infinity may stand. It must not retain the bytes.
	Row func(row []byte) error
}

// ErrForm means that the bytes are no Arrow or Parquet that can be read.
var ErrForm = errors.New("unreadable Arrow or Parquet")

// MagicArrow starts an Arrow file, and its first six bytes end it. MagicStream starts an Arrow stream.
// magicParquet starts and ends a Parquet file.
var MagicArrow, MagicStream, magicParquet = []byte("ARROW1\x00\x00"), []byte{0xff, 0xff, 0xff, 0xff}, []byte("PAR1")

// Is reports whether data has the form of an Arrow stream, an Arrow file or a Parquet file. No text has one.
func Is(data []byte) bool { return IsParquet(data) || isArrow(data) }

// IsParquet reports whether data has the form of a Parquet file.
func IsParquet(data []byte) bool {
	return len(data) >= 12 && bytes.HasPrefix(data, magicParquet) && bytes.HasSuffix(data, magicParquet)
}

func isArrow(data []byte) bool {
	file := bytes.HasPrefix(data, MagicArrow) && bytes.HasSuffix(data, MagicArrow[:6])
	return len(data) >= 32 && file || len(data) >= 16 && bytes.HasPrefix(data, MagicStream)
}

// registered is set by an init function, before anything reads it.
var registered Codec = none{}

// Register makes a codec the one of this program. Only an init function may call it.
func Register(c Codec) { registered = c }

// Registered returns the codec of this program. If it has none, every method of the result returns an error
// that wraps errors.ErrUnsupported.
func Registered() Codec { return registered }

// Supported reports whether this program has a codec.
func Supported() bool { return registered != Codec(none{}) }

var errNone = fmt.Errorf("this program has no codec of Arrow and Parquet: import _ %q (%w)", "github.com/weir-mcp/weir/s2sp/columnar", errors.ErrUnsupported)

// none is the codec of a program that has none.
type none struct{}

func (none) WriteArrow(io.Writer, Rows) (int64, error)                      { return 0, errNone }
func (none) WriteParquet(io.Writer, Rows, func(int64) error) (int64, error) { return 0, errNone }
func (none) Read([]byte, Sink) error                                        { return errNone }
func (none) CountArrow(io.Reader) (int, error)                              { return 0, errNone }
