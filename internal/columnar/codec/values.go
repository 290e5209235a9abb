package codec

import (
	"bytes"
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

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
