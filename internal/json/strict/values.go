package strict

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Secret is a text that must not be shown. Every form a formatter, a logger or an
// encoder asks for is masked; only [Secret.Reveal] gives the text itself.
type Secret string

const masked = "[redacted]"

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask, or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// Format writes the mask for every verb, %d and %#v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue returns the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the mask. JSON uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML returns the mask.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// Bytes is a size. In a file it is a number of bytes or a text such as "10MB";
// KB, MB and GB are powers of 1024, and KiB, MiB and GiB the same.
type Bytes int64

// short returns a size in the largest unit of which it is a multiple, as in "16MB".
func (b Bytes) short() string {
	for _, unit := range []string{"GB", "MB", "KB"} {
		if f := Bytes(sizeUnit(strings.ToLower(unit))); b > 0 && b%f == 0 {
			return strconv.FormatInt(int64(b/f), 10) + unit
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// sizeUnit is the factor of a unit in lower case, or 0.
func sizeUnit(unit string) int64 {
	switch unit {
	case "", "b":
		return 1
	case "k", "kb", "kib":
		return 1 << 10
	case "m", "mb", "mib":
		return 1 << 20
	case "g", "gb", "gib":
		return 1 << 30
	}
	return 0
}

// parseBytes reads "65536", "10MB" or "1.5 GiB".
func parseBytes(text string) (Bytes, bool) {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789") + 1
	unit := sizeUnit(strings.ToLower(strings.TrimSpace(text[end:])))
	if unit == 0 {
		return 0, false
	}
	number := text[:end]
	if strings.Trim(number, "0123456789.") != "" { // no signs, no exponents
		return 0, false
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > math.MaxInt64/unit {
			return 0, false
		}
		return Bytes(n * unit), true
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f*float64(unit) >= math.MaxInt64 {
		return 0, false
	}
	return Bytes(f * float64(unit)), true
}

// ParseDuration reads a Go duration. A bare number is seconds only where the file
// has a number; as a text it is "0" or nothing.
func ParseDuration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	return d, err == nil && d >= 0
}

// parseSeconds reads a number of seconds, with a fraction or not.
func parseSeconds(text string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || !(f >= 0) || f*float64(time.Second) >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(math.Round(f * float64(time.Second))), true
}
