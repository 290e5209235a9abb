package table

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// decimal is a JSON number without loss: 0.digits × 10^exponent, with leading and trailing zeros
// removed. Zero has no digits.
type decimal struct {
	negative bool
	whole    []byte // digits before the point, followed by
	fraction []byte // the digits after it
	skip     int    // leading zeros
	count    int    // significant digits
	exponent int64  // power of ten
}

// maxExponent limits exponents: a larger one is read as maxExponent. No machine could hold a number
// that differs only beyond it.
const maxExponent = 1 << 60

// parseDecimal reads a number that is valid JSON.
func parseDecimal(raw []byte) decimal {
	var d decimal
	if raw[0] == '-' {
		d.negative, raw = true, raw[1:]
	}
	var exponent int64
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		exponent = parseExponent(raw[i+1:])
		raw = raw[:i]
	}
	d.whole = raw
	if i := bytes.IndexByte(raw, '.'); i >= 0 {
		d.whole, d.fraction = raw[:i], raw[i+1:]
	}
	n := len(d.whole) + len(d.fraction)
	for d.skip < n && d.digit(0) == '0' {
		d.skip++
	}
	d.count = n - d.skip
	for d.count > 0 && d.digit(d.count-1) == '0' {
		d.count--
	}
	if d.count == 0 {
		return decimal{}
	}
	d.exponent = exponent + int64(len(d.whole)-d.skip)
	return d
}

func parseExponent(raw []byte) int64 {
	negative := raw[0] == '-'
	if negative || raw[0] == '+' {
		raw = raw[1:]
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n > maxExponent {
		n = maxExponent
	}
	if negative {
		return -n
	}
	return n
}

func (d *decimal) digit(i int) byte {
	if i += d.skip; i < len(d.whole) {
		return d.whole[i]
	}
	return d.fraction[i-len(d.whole)]
}

// CompareNumbers compares two JSON numbers of any length by value, without rounding: 1e2 equals
// 100.0, and 9007199254740993 differs from 9007199254740992. Both must be valid.
func CompareNumbers(a, b []byte) int {
	x, y := parseDecimal(a), parseDecimal(b)
	switch {
	case x.sign() < y.sign():
		return -1
	case x.sign() > y.sign():
		return 1
	case x.count == 0:
		return 0
	}
	c := 0
	if x.exponent != y.exponent {
		c = 1
		if x.exponent < y.exponent {
			c = -1
		}
	}
	for i := 0; c == 0 && i < min(x.count, y.count); i++ {
		c = int(x.digit(i)) - int(y.digit(i))
	}
	if c == 0 {
		c = x.count - y.count
	}
	c = min(max(c, -1), 1)
	if x.negative {
		return -c
	}
	return c
}

func (d *decimal) sign() int {
	switch {
	case d.count == 0:
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// canonical appends a form of the number that is the same for equal numbers.
func (d *decimal) canonical(dst []byte) []byte {
	if d.count == 0 {
		return append(dst, '0')
	}
	if d.negative {
		dst = append(dst, '-')
	}
	for i := range d.count {
		dst = append(dst, d.digit(i))
	}
	return strconv.AppendInt(append(dst, 'e'), d.exponent, 10)
}

// errNumber reports that a sum would need more digits than the limit.
var errNumber = errors.New("number out of range")

// maxSumDigits bounds the digits of a sum before and after the point, each.
const maxSumDigits = 5000

// sum adds numbers exactly.
type sum struct {
	small int64    // used while all numbers are small integers
	large *big.Int // times 10^-scale
	scale int64
	count int64
}

// bytes returns the memory of the sum's digits.
func (s *sum) bytes() int64 {
	if s.large == nil {
		return 0
	}
	return int64(len(s.large.Bits())) * (bits.UintSize / 8)
}

func (s *sum) add(raw []byte) error {
	s.count++
	if s.large == nil {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			if t := s.small + n; (t > s.small) == (n > 0) || n == 0 {
				s.small = t
				return nil
			}
		}
		s.large = big.NewInt(s.small)
	}
	d := parseDecimal(raw)
	if d.count == 0 {
		return nil
	}
	low := d.exponent - int64(d.count) // power of ten of the last digit
	if d.exponent > maxSumDigits || low < -maxSumDigits {
		return fmt.Errorf("%w: %.40s cannot be added up: at most %d digits on either side of the point", errNumber, raw, maxSumDigits)
	}
	digits := make([]byte, 0, d.count+1)
	if d.negative {
		digits = append(digits, '-')
	}
	for i := range d.count {
		digits = append(digits, d.digit(i))
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return fmt.Errorf("%w: %.40s", errNumber, raw)
	}
	if -low > s.scale {
		s.large.Mul(s.large, tenTo(-low-s.scale))
		s.scale = -low
	}
	s.large.Add(s.large, n.Mul(n, tenTo(low+s.scale)))
	return nil
}

func tenTo(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// json writes the sum as a JSON number with all its digits.
func (s *sum) json() []byte {
	if s.large == nil {
		return strconv.AppendInt(nil, s.small, 10)
	}
	text := s.large.String()
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	if s.scale > 0 {
		if pad := int(s.scale) + 1 - len(text); pad > 0 {
			text = strings.Repeat("0", pad) + text
		}
		point := len(text) - int(s.scale)
		fraction := strings.TrimRight(text[point:], "0")
		text = text[:point]
		if fraction != "" {
			text += "." + fraction
		}
	}
	if text == "0" {
		sign = ""
	}
	return []byte(sign + text)
}

// mean returns the average with at most 17 significant digits.
func (s *sum) mean() []byte {
	total := s.large
	if total == nil {
		total = big.NewInt(s.small)
	}
	quotient := new(big.Rat).SetFrac(total, new(big.Int).Mul(tenTo(s.scale), big.NewInt(s.count)))
	if quotient.IsInt() {
		return []byte(quotient.Num().String())
	}
	if f, ok := quotient.Float64(); ok || f != 0 && f-f == 0 {
		return strconv.AppendFloat(nil, f, 'g', -1, 64)
	}
	return []byte(new(big.Float).SetPrec(64).SetRat(quotient).Text('g', 17))
}
