package columnar

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// ErrForm means that the bytes are no Arrow or Parquet that can be read.
var ErrForm = errors.New("unreadable Arrow or Parquet")

// magicArrow starts an Arrow file, and its first six bytes end it. magicParquet starts and ends a Parquet file.
var magicArrow, magicParquet, magicStream = []byte("ARROW1\x00\x00"), []byte("PAR1"), []byte{0xff, 0xff, 0xff, 0xff}

// Is reports whether data has the form of an Arrow stream, an Arrow file or a Parquet file. No text has one.
func Is(data []byte) bool { return isParquet(data) || isArrow(data) }

func isParquet(data []byte) bool {
	return len(data) >= 12 && bytes.HasPrefix(data, magicParquet) && bytes.HasSuffix(data, magicParquet)
}

func isArrow(data []byte) bool {
	file := bytes.HasPrefix(data, magicArrow) && bytes.HasSuffix(data, magicArrow[:6])
	return len(data) >= 32 && file || len(data) >= 16 && bytes.HasPrefix(data, magicStream)
}

// A Sink takes what is read.
type Sink struct {
	// Grow is asked before more memory is used, and returns an error if there is none; nil allows all.
	Grow func(bytes int64) error
	// Row takes a row as a JSON object, in which NaN and Infinity may stand. It must not retain the bytes.
	Row func(row []byte) error
}

func (s Sink) grow(n int64) error {
	if s.Grow == nil || n <= 0 {
		return nil
	}
	return s.Grow(n)
}

// Read reads data, of which Is is true. Its error is an error of s, or wraps ErrForm.
func Read(data []byte, s Sink) (err error) {
	own := &sinkError{}
	defer func() {
		// Both decoders take some malformed data for a fault of the program.
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: %v", ErrForm, fault)
		}
		if own.err != nil {
			err = own.err
		}
	}()
	watched := Sink{Grow: func(n int64) error { return own.keep(s.grow(n)) }, Row: func(row []byte) error { return own.keep(s.Row(row)) }}
	if isParquet(data) {
		err = readParquet(data, watched)
	} else {
		err = readArrow(data, watched)
	}
	if err != nil && own.err == nil {
		err = fmt.Errorf("%w: %w", ErrForm, err)
	}
	return err
}

// sinkError keeps the first error of a Sink, which a decoder may wrap or hide.
type sinkError struct{ err error }

func (e *sinkError) keep(err error) error {
	if e.err == nil {
		e.err = err
	}
	return err
}

// The functions below append values as JSON.

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// appendFloat appends a number of so many bits. NaN and Infinity are written as such.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	form := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, form, -1, bits)
	if form == 'f' && bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...) // it stays a float when it is written again
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

// appendText appends a text of a column of strings, or of one whose texts are JSON.
func appendText(dst, text []byte, isJSON bool) []byte {
	if isJSON && rawjson.Valid(text) == nil {
		return append(dst, text...)
	}
	return rawjson.AppendText(dst, text)
}

func appendDate(dst []byte, days int64) []byte {
	return append(time.Unix(days*86400, 0).UTC().AppendFormat(append(dst, '"'), time.DateOnly), '"')
}

// appendTime appends a time as a string with so many digits of a second.
func appendTime(dst []byte, t time.Time, unit int, zoned bool) []byte {
	layout := "2006-01-02T15:04:05"
	if unit > 0 {
		layout += ".000000000"[:unit+1]
	}
	if zoned {
		layout += "Z"
	}
	return append(t.UTC().AppendFormat(append(dst, '"'), layout), '"')
}

// appendClock appends a time of day, in nanoseconds.
func appendClock(dst []byte, nanos int64, unit int) []byte {
	layout := "15:04:05"
	if unit > 0 {
		layout += ".000000000"[:unit+1]
	}
	return append(time.Unix(0, nanos).UTC().AppendFormat(append(dst, '"'), layout), '"')
}

// ticked returns the time of so many units, of which a second has 10 to the power of unit.
func ticked(n int64, unit int) time.Time {
	switch unit {
	case 0:
		return time.Unix(n, 0)
	case 3:
		return time.UnixMilli(n)
	case 6:
		return time.UnixMicro(n)
	}
	return time.Unix(n/1e9, n%1e9)
}

// appendDecimal appends an integer with the point before its last digits.
func appendDecimal(dst []byte, n *big.Int, scale int) []byte {
	digits := n.Text(10)
	if scale <= 0 {
		dst = append(dst, digits...)
		for range min(-scale, maxNumber) {
			dst = append(dst, '0')
		}
		return dst
	}
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	for len(digits) <= scale && scale <= maxNumber {
		digits = "0" + digits
	}
	at := max(len(digits)-scale, 0)
	return append(append(append(dst, digits[:at]...), '.'), digits[at:]...)
}
