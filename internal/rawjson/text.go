package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// RepairText returns data as UTF-8. Each run of bytes that is none becomes U+FFFD,
// in a copy; valid data is returned as it is. Such bytes stand within strings, as
// JSON has none elsewhere, so JSON stays JSON. One of them in a message ends many
// a client.
func RepairText(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}
