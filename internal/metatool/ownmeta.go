package metatool

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// ownPrefix is the prefix of weir's keys in _meta: the envelope, the format, a Computer's
// signature. An upstream must not set them, because they would appear to come from weir.
const ownPrefix = "weir/"

// withoutOwnMeta returns an upstream's result without weir's keys in its _meta. All other bytes
// stay the same. If there is no such key, it returns result itself, after a scan that costs a
// fraction of parsing it.
func withoutOwnMeta(result json.RawMessage) json.RawMessage {
	if !mayHoldOwnMeta(result) {
		return result
	}
	var out []byte
	done := 0 // result[:done] has been copied to out
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
	if err != nil || done == 0 { // a result that is not an object is refused by its reader
		return result
	}
	return append(out, result[done:]...)
}

// mayHoldOwnMeta reports whether result may contain a key of weir, possibly with escapes. It
// searches for rare bytes, because the word by itself occurs in many texts.
func mayHoldOwnMeta(result []byte) bool {
	for rest := result; ; {
		at := bytes.IndexByte(rest, '/')
		if at < 0 {
			return rawjson.Contains(result, `\u00`)
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
