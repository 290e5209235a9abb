package rawjson

import (
	"bytes"
	"math"
	"strconv"
)

// Int returns the value of a whole number in any notation: 2, 2.0 and 2e0 are the same number to
// JSON Schema, and clients that know only floats write the second. ok is false for other values and
// for those that do not fit. With a fraction or an exponent the number must be within ±2^53,
// because floats are rounded beyond.
func Int(raw []byte) (n int, ok bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false // ParseFloat knows words as well
	}
	if n, err := strconv.Atoi(string(raw)); err == nil {
		return n, true
	}
	if bytes.ContainsAny(raw, "xX") {
		return 0, false // nor are there hexadecimal numbers in JSON
	}
	const limit = 1 << 53
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < -limit || f > limit || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}
