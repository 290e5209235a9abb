package observe

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/redact"
)

const (
	// maxCaptured bounds the arguments and the result of a call that are kept, each in bytes.
	maxCaptured = 64 << 10
	// maxSearched bounds what is searched for secrets. Of a longer text the beginning is kept, without its
	// last bytes: a secret may start there.
	maxSearched = 4 * maxCaptured
	edge        = 4 << 10
)

// Capture returns what keeps the arguments and results of calls, without secrets: those that weir
// knows, texts that look like one, and values under names such as "password".
func Capture(r *result.Redactor) metatool.Capture {
	return func(arguments, answer json.RawMessage) *telemetry.Exchange {
		var x telemetry.Exchange
		x.Arguments, x.ArgumentsCut = captured(r, arguments)
		x.Result, x.ResultCut = captured(r, answer)
		return &x
	}
}

// captured returns a copy of raw without secrets, or the beginning of it.
func captured(r *result.Redactor, raw []byte) (kept []byte, cut bool) {
	begins := len(raw) > maxSearched // only the beginning is searched
	if !begins {
		raw = r.Results(raw)
	} else {
		raw = raw[:maxSearched]
		raw = []byte(r.Text(string(raw)))
	}
	h := scrubber{texts: r, raw: raw}
	kept = h.run()
	cut = begins || h.cut
	bound := maxCaptured
	if begins {
		bound = min(bound, max(len(kept)-edge, 0))
	}
	if len(kept) > bound {
		kept, cut = kept[:bound], true
		kept = bytes.ToValidUTF8(kept, nil) // the last character may be cut
	}
	return bytes.Clone(kept), cut
}

// maxInner is how deep JSON in texts of JSON is read.
const maxInner = 4

// A scrubber copies JSON, or the start of it, and hides values whose names say that they are secrets: texts
// and numbers, also in lists and objects and in JSON in texts; and the value of a pair such
// as {"name": "Authorization", "value": "…"}.
type scrubber struct {
	texts *result.Redactor
	raw   []byte
	inner int // how often JSON stands in a text around raw

	out    []byte
	open   []nest
	secret bool // the next value is one by its name
	cut    bool // a text is not whole: Redactor.Redact reads as much as maxCaptured
}

// nest is an object or a list that has started.
type nest struct {
	secret bool   // all in it is
	key    string // the name of the member that is read
	named  bool   // a member "name" or "key" has the name of a secret
}

func (h *scrubber) run() []byte {
	h.open = []nest{{}}
	for i := 0; i < len(h.raw); {
		top := &h.open[len(h.open)-1]
		switch c := h.raw[i]; c {
		case '"':
			i = h.text(i)
			continue
		case '{', '[':
			h.open = append(h.open, nest{secret: h.secret})
		case '}', ']':
			if len(h.open) > 1 {
				h.open = h.open[:len(h.open)-1]
			}
			h.secret = h.open[len(h.open)-1].secret
		case ',':
			h.secret, top.key = top.secret, ""
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := i + 1
			for end < len(h.raw) && strings.IndexByte("0123456789.eE+-", h.raw[end]) >= 0 {
				end++
			}
			if h.secret {
				h.out = rawjson.AppendString(h.out, redact.Mark)
			} else {
				h.out = append(h.out, h.raw[i:end]...)
			}
			i = end
			continue
		}
		h.out = append(h.out, h.raw[i])
		i++
	}
	return h.out
}

// text copies the text or the name that starts at i, and returns where it ends.
func (h *scrubber) text(i int) (end int) {
	whole := false
	for end = i + 1; end < len(h.raw) && !whole; end++ {
		switch h.raw[end] {
		case '\\':
			end++
		case '"':
			whole = true
		}
	}
	end = min(end, len(h.raw))
	quoted := h.raw[i:end]
	text := unquoted(quoted, whole)
	h.cut = h.cut || len(text) > maxCaptured
	top := &h.open[len(h.open)-1]
	if next := rawjson.SkipSpace(h.raw, end); next < len(h.raw) && h.raw[next] == ':' {
		top.key = text
		h.secret = top.secret || redact.Telling(text) || top.named && text == "value"
		h.out = append(h.out, quoted...)
		return end
	}
	if top.key == "name" || top.key == "key" {
		top.named = redact.Telling(text)
	}
	shown := text
	switch first := strings.TrimLeft(text, " \t\r\n"); {
	case h.secret:
		if text != "" {
			shown = redact.Mark
		}
	case h.inner < maxInner && first != "" && strings.IndexByte("{[\"", first[0]) >= 0:
		shown = h.texts.Redact(string((&scrubber{texts: h.texts, raw: []byte(text), inner: h.inner + 1}).run()))
	default:
		shown = h.texts.Redact(text)
	}
	if shown == text {
		h.out = append(h.out, quoted...)
	} else {
		h.out = rawjson.AppendString(h.out, shown)
	}
	return end
}

// unquoted returns the text of a JSON string, of which the end may be missing.
func unquoted(quoted []byte, whole bool) string {
	if whole {
		return rawjson.Text(quoted)
	}
	for cut := 0; cut < len(quoted) && cut <= len(`\u0000`); cut++ {
		if text, err := rawjson.String(append(bytes.Clone(quoted[:len(quoted)-cut]), '"')); err == nil {
			return text
		}
	}
	return ""
}
