package codec

import (
	"bytes"
	"math/big"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A kind is a type of a column.
type kind uint8

const (
	kindNull    kind = iota // only null and absent values
	kindBool                // true and false
	kindInt                 // integers of 64 bits
	kindFloat               // numbers; integers have at most 53 bits
	kindDecimal             // numbers of at most 38 digits that a float64 would round
	kindString              // strings
	kindDate                // strings such as "2026-01-31"
	kindTime                // strings such as "2026-01-31T10:20:30.5Z", with Z or without a zone
	kindList                // arrays of one of the kinds above
	kindJSON                // all other values, as JSON text
)

// A column is the type of a column.
type column struct {
	kind             kind
	precision, scale int  // of kindDecimal
	unit             int  // of kindTime: digits of the fraction, 0, 3, 6 or 9
	utc              bool // of kindTime: the times have a zone
	elem             *column
}

// seen says which values a column has. Each value may only add to it.
type seen struct {
	bools, numbers, strings, lists, others bool

	floats  bool // some number is no integer of 64 bits
	wide    bool // some integer has more than 53 bits
	rounded bool // a float64 would round some number
	inexact bool // some number has an exponent, or too many digits, so that it is no decimal
	digits  int  // most digits before the point
	scale   int  // most digits after it

	notDates, notTimes bool // some string is none
	zoned, zoneless    bool // some time has a zone, or none
	fraction           int  // most digits of a fraction of a second
	farTimes           bool // some time is not within the range of nanoseconds

	elem *seen
}

// maxNumber is the most bytes of a number with which programs compute.
const maxNumber = 4 << 10

// exact is the limit below which every integer is a float64.
const exact = 1 << 53

// add adds a value; nil is an absent one.
func (s *seen) add(v []byte) {
	if len(v) == 0 || v[0] == 'n' || s.others {
		return
	}
	switch v[0] {
	case 't', 'f':
		s.bools = true
	case '"':
		s.strings = true
		s.addString(v)
	case '[':
		s.lists = true
		if len(v) > longText {
			s.others = true // as a list it would be copied
			return
		}
		if s.elem == nil {
			s.elem = new(seen)
		}
		if rawjson.EachElement(v, func(e []byte) bool {
			s.elem.add(e)
			return !s.elem.others && !s.elem.lists
		}) != nil || s.elem.others || s.elem.lists {
			s.others = true
		}
	case '{':
		s.others = true
	default:
		s.numbers = true
		s.addNumber(v)
	}
	mixed := 0
	for _, is := range []bool{s.bools, s.numbers, s.strings, s.lists} {
		if is {
			mixed++
		}
	}
	s.others = s.others || mixed > 1
}

func (s *seen) addNumber(v []byte) {
	if len(v) > maxNumber {
		s.others = true
		return
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && string(v) != "-0" {
		s.wide = s.wide || n > exact || n < -exact
		s.digits = max(s.digits, len(bytes.TrimPrefix(v, []byte{'-'})))
		return
	}
	s.floats = true
	whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(v, []byte{'-'}), []byte{'.'})
	noInteger := bytes.ContainsAny(v, "eE") || string(v) == "-0"
	if noInteger {
		s.inexact = true
	} else {
		s.digits, s.scale = max(s.digits, len(whole)), max(s.scale, len(fraction))
	}
	f, err := strconv.ParseFloat(string(v), 64)
	significant := bytes.TrimLeft(bytes.Join([][]byte{whole, fraction}, nil), "0")
	if at := bytes.IndexAny(significant, "eE"); at >= 0 {
		significant = significant[:at]
	}
	zero := len(bytes.TrimRight(significant, "0")) == 0
	if len(fraction) > 0 {
		significant = bytes.TrimRight(significant, "0")
	}
	if err != nil || f == 0 && !zero || len(significant) > 17 || len(fraction) == 0 && !noInteger {
		s.rounded = true
	}
}

func (s *seen) addString(v []byte) {
	if rawjson.HalfPair(v, 0) >= 0 { // only JSON can write it
		s.others = true
		return
	}
	if s.notDates && s.notTimes {
		return
	}
	if len(v) > len(`"2006-01-02T15:04:05.123456789+00:00"`) {
		s.notDates, s.notTimes = true, true
		return
	}
	text := string(v[1 : len(v)-1])
	if _, ok := parseDate(text); !ok {
		s.notDates = true
	}
	t, digits, zoned, ok := parseTime(text)
	if !ok {
		s.notTimes = true
		return
	}
	s.zoned, s.zoneless = s.zoned || zoned, s.zoneless || !zoned
	s.fraction = max(s.fraction, digits)
	s.farTimes = s.farTimes || t.Year() < 1678 || t.Year() > 2261
}

// parseDate reads a date from the year 1 to 9999.
func parseDate(text string) (days int64, ok bool) {
	if len(text) != len(time.DateOnly) {
		return 0, false
	}
	t, err := time.Parse(time.DateOnly, text)
	return t.Unix() / 86400, err == nil && t.Year() > 0
}

// parseTime reads a date with a time of day, in UTC or without a zone. A time in another zone is none,
// because no type keeps the zones of single values.
func parseTime(text string) (t time.Time, fraction int, zoned, ok bool) {
	const layout = "2006-01-02T15:04:05"
	if len(text) < len(layout) || text[10] != 'T' {
		return t, 0, false, false
	}
	rest := text[len(layout):]
	switch {
	case len(rest) > 0 && rest[len(rest)-1] == 'Z':
		rest, zoned = rest[:len(rest)-1], true
	case len(rest) > 6 && rest[len(rest)-6:] == "+00:00":
		rest, zoned = rest[:len(rest)-6], true
	case rest == "+00:00":
		rest, zoned = "", true
	}
	t, err := time.Parse(layout, text[:len(layout)])
	if err != nil || t.Year() < 1 {
		return t, 0, false, false
	}
	if rest == "" {
		return t, 0, zoned, true
	}
	if rest[0] != '.' || len(rest) < 2 || len(rest) > 10 {
		return t, 0, false, false
	}
	nanos := 0
	for i := 1; i < 10; i++ {
		digit := 0
		if i < len(rest) {
			if rest[i] < '0' || rest[i] > '9' {
				return t, 0, false, false
			}
			digit = int(rest[i] - '0')
		}
		nanos = 10*nanos + digit
	}
	return t.Add(time.Duration(nanos)), len(rest) - 1, zoned, true
}

// column returns the type for all that was seen.
func (s *seen) column() column {
	switch {
	case s.others:
		return column{kind: kindJSON}
	case s.bools:
		return column{kind: kindBool}
	case s.numbers:
		return s.number()
	case s.strings:
		return s.string()
	case s.lists:
		elem := s.elem.column()
		if elem.kind == kindJSON {
			return column{kind: kindJSON}
		}
		if elem.kind == kindNull {
			elem.kind = kindString // Parquet has no list of nulls
		}
		return column{kind: kindList, elem: &elem}
	}
	return column{kind: kindNull}
}

// maxPrecision is the most digits of a decimal of 128 bits.
const maxPrecision = 38

func (s *seen) number() column {
	switch {
	case !s.floats:
		return column{kind: kindInt}
	case !s.rounded && !s.wide:
		return column{kind: kindFloat}
	case s.inexact || s.digits+s.scale > maxPrecision:
		return column{kind: kindJSON}
	}
	return column{kind: kindDecimal, precision: s.digits + s.scale, scale: s.scale}
}

func (s *seen) string() column {
	switch {
	case !s.notDates:
		return column{kind: kindDate}
	case s.notTimes || s.zoned && s.zoneless:
		return column{kind: kindString}
	}
	unit := (s.fraction + 2) / 3 * 3
	if unit == 9 && s.farTimes {
		return column{kind: kindString}
	}
	return column{kind: kindTime, unit: unit, utc: s.zoned}
}

// ticks returns a time in units of a column.
func (c column) ticks(t time.Time) int64 {
	switch c.unit {
	case 0:
		return t.Unix()
	case 3:
		return t.UnixMilli()
	case 6:
		return t.UnixMicro()
	}
	return t.UnixNano()
}

// unscaled returns a number as the integer that a decimal of the column holds.
func (c column) unscaled(v []byte) (*big.Int, error) {
	whole, fraction, _ := bytes.Cut(v, []byte{'.'})
	digits := append(bytes.Clone(whole), fraction...)
	for range c.scale - len(fraction) {
		digits = append(digits, '0')
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return nil, errValue
	}
	return n, nil
}
