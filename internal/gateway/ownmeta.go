package gateway

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// ownPrefix begins the keys of _meta that are weir's: the envelope, the format, a
// Computer's signature. From an upstream they would say something in weir's name.
const ownPrefix = "weir/"

// withoutOwnMeta returns the result of an upstream without weir's keys in its
// _meta. Every other byte stays; where there is no such key, result itself is
// returned, after a look that costs a fraction of reading it.
func withoutOwnMeta(result json.RawMessage) json.RawMessage {
	if !mayHoldOwnMeta(result) {
		return result
	}
	var out []byte
	done := 0 // result up to here is in out
	err := rawjson.EachMember(result, func(m rawjson.Member) bool {
		if string(m.Key) != "_meta" {
			return true
		}
		if clean, changed := dropOwn(m.Value); changed {
			out = append(append(out, result[done:m.End-len(m.Value)]...), clean...)
			done = m.End
		}
		return true
	})
	if err != nil || done == 0 { // what is no object is refused where it is read
		return result
	}
	return append(out, result[done:]...)
}

// mayHoldOwnMeta reports whether a key of weir's may be in result, possibly written with escapes. It
// searches for bytes that are rare in a text: the word alone is in many.
func mayHoldOwnMeta(result []byte) bool {
	for rest := result; ; {
		at := bytes.IndexByte(rest, '/')
		if at < 0 {
			return bytes.Contains(result, []byte(`\u00`))
		}
		if bytes.HasSuffix(bytes.TrimSuffix(rest[:at], []byte(`\`)), []byte("weir")) {
			return true
		}
		rest = rest[at+1:]
	}
}

// dropOwn returns meta without weir's keys, and whether there were any.
func dropOwn(meta []byte) (clean []byte, changed bool) {
	clean = []byte{'{'}
	err := rawjson.EachMember(meta, func(m rawjson.Member) bool {
		if strings.HasPrefix(string(m.Key), ownPrefix) {
			changed = true
			return true
		}
		if len(clean) > 1 {
			clean = append(clean, ',')
		}
		clean = append(clean, meta[m.Start:m.End]...)
		return true
	})
	return append(clean, '}'), changed && err == nil
}
