package app

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/lazy"
	"github.com/weir-mcp/weir/internal/redact"
	"github.com/weir-mcp/weir/internal/telemetry"
)

const (
	// maxCaptured bounds the arguments and the result of a call that are kept, each in bytes.
	maxCaptured = 64 << 10
	// maxSearched bounds what is searched for secrets. Of a longer text the beginning is kept, without its
	// last bytes: a secret may begin there.
	maxSearched = 4 * maxCaptured
	edge        = 4 << 10
)

// members finds members of JSON whose value is a text or a number, and inner those of JSON in a text.
var (
	members = lazy.Pattern(`("(?:[^"\\]|\\.)*")(\s*:\s*)("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)`)
	inner   = lazy.Pattern(`(\\"[^"\\]*\\")(\s*:\s*)(\\"[^"\\]*\\"|-?[0-9][0-9.eE+-]*)`)
)

// captureOf returns what keeps the arguments and results of calls, without secrets: those that weir
// knows, texts that look like one, and values under names such as "password".
func captureOf(r *result.Redactor) gateway.Capture {
	return func(arguments, answer json.RawMessage) *telemetry.Exchange {
		var x telemetry.Exchange
		x.Arguments, x.ArgumentsCut = captured(r, arguments)
		x.Result, x.ResultCut = captured(r, answer)
		return &x
	}
}

// captured returns a copy of raw without secrets, or the beginning of it.
func captured(r *result.Redactor, raw []byte) (kept []byte, cut bool) {
	if len(raw) <= maxSearched {
		raw = r.Results(raw)
	} else {
		raw, cut = raw[:maxSearched], true
		raw = []byte(r.Text(string(raw)))
	}
	kept = inner().ReplaceAllFunc(members().ReplaceAllFunc(raw, hideTelling), hideTelling)
	bound := maxCaptured
	if cut {
		bound = min(bound, max(len(kept)-edge, 0))
	}
	if len(kept) > bound {
		kept, cut = kept[:bound], true
		kept = bytes.ToValidUTF8(kept, nil) // the last character may be cut
	}
	return bytes.Clone(kept), cut
}

// hideTelling replaces the value of a member whose name says that it is a secret.
func hideTelling(member []byte) []byte {
	m := inner().FindSubmatch(member)
	if !bytes.HasPrefix(member, []byte(`\`)) {
		m = members().FindSubmatch(member)
	}
	name := strings.Trim(string(m[1]), `\"`)
	var plain string
	if json.Unmarshal(m[1], &plain) == nil {
		name = plain // written with escapes
	}
	if !redact.Telling(name) {
		return member
	}
	quote := `"`
	if bytes.HasPrefix(m[1], []byte(`\`)) {
		quote = `\"`
	}
	return []byte(string(m[1]) + string(m[2]) + quote + redact.Mark + quote)
}
