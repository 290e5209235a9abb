package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// RepairText returns data as UTF-8. Each run of invalid bytes becomes U+FFFD, in a copy; valid data
// is returned unchanged. In JSON such bytes can only be inside strings, so the result is still
// JSON. A single one of them makes many clients fail.
func RepairText(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}
