package usage

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
	"unsafe"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
)

// Texts are what a model reads of a result: the text of its content blocks, and other blocks as
// JSON, except images and audio, which are not read as text. Without content, it is the
// structuredContent. Texts are slices of the result.
type Texts struct {
	parts  []part
	bytes  int
	quotes int // among the bytes
}

// part is a text: a JSON string with its quotes, or JSON that is read as it is.
type part struct {
	raw    []byte
	quoted bool
}

// Bounds of exact counts, and of the samples of larger texts.
const (
	// MaxExact is the size up to which the tokens of a result are counted exactly.
	MaxExact = 32 << 10

	samples      = 12
	sampleBytes  = 340
	maxWordBytes = 32 // how far a sample is moved to start with a word
)

// TextsOf returns the texts of a result. Those before a syntax error count, even if the rest is
// malformed.
func TextsOf(raw json.RawMessage) (t Texts) {
	var fields [2][]byte
	if rawjson.Fields(raw, []string{"content", "structuredContent"}, fields[:]) != nil {
		return t
	}
	blocks := 0
	if rawjson.IsArray(fields[0]) {
		// The part that was read counts.
		_ = rawjson.EachCheckedElement(fields[0], func(v []byte) bool {
			blocks++
			var member [2][]byte
			if rawjson.CheckedFields(v, []string{"type", "text"}, member[:]) != nil {
				return true
			}
			switch result.KindOf(member[0]) {
			case "text":
				if len(member[1]) > 1 && member[1][0] == '"' {
					t.add(part{member[1], true})
				}
			case "image", "audio":
			default:
				t.add(part{v, false})
			}
			return true
		})
	}
	if blocks == 0 && fields[1] != nil {
		t.add(part{fields[1], false})
	}
	return t
}

func (t *Texts) add(p part) {
	t.parts = append(t.parts, p)
	t.bytes += len(p.raw)
	if p.quoted {
		t.quotes += 2
	}
}

// Size returns the number of bytes of the texts in JSON.
func (t Texts) Size() int { return t.bytes }

// Count returns the number of tokens, and whether it is exact. Of more than MaxExact bytes, it
// counts twelve samples at equal distances and scales their sum. So a result of any size costs as
// much as one of 4 KB.
func (t Texts) Count(tokens func(string) int) (n int, exact bool) {
	if t.bytes <= MaxExact {
		for _, p := range t.parts {
			n += p.count(tokens, p.raw)
		}
		return n, true
	}
	return t.estimate(tokens), false
}

// estimate takes samples of all parts as if they were one text: one of each twelfth, at a place
// that differs, because the content of many texts is periodic.
func (t Texts) estimate(tokens func(string) int) int {
	stride := t.bytes / samples
	place := func(n int) int { return n*stride + n*7%samples*(stride-sampleBytes)/samples }
	counted, read := 0, 0
	at, n := 0, 0 // the offset of the part, and the next sample
	room := 0     // of the sample that the last part started
	for _, p := range t.parts {
		take := func(from int) {
			piece, size, rest := p.sample(from, room)
			counted += p.count(tokens, piece)
			read += len(piece)
			if room -= max(1, size); rest {
				room = 0
			}
		}
		if room > 0 {
			take(0)
		}
		for ; place(n) < at+len(p.raw); n++ {
			if room <= 0 {
				room = sampleBytes
				take(max(0, place(n)-at))
			}
		}
		at += len(p.raw)
	}
	if read == 0 {
		return 0
	}
	return int(float64(counted) * float64(t.bytes-t.quotes) / float64(read))
}

// count returns the number of tokens of a piece of the part.
func (p part) count(tokens func(string) int, piece []byte) int {
	if p.quoted && len(piece) == len(p.raw) {
		piece = piece[1 : len(piece)-1]
	}
	if p.quoted && bytes.IndexByte(piece, '\\') >= 0 {
		quoted := append(append(append(make([]byte, 0, len(piece)+2), '"'), piece...), '"')
		text, err := rawjson.Unquote(quoted)
		if err != nil {
			return 0
		}
		piece = text
	}
	return tokens(unsafe.String(unsafe.SliceData(piece), len(piece))) // not a copy; the text does not change
}

// sample returns a piece of the part of about so many bytes from the offset at, with an escape as one
// of them. It starts with a word where there are words, and neither starts nor ends inside a
// character or an escape. size is the size of the piece; rest reports whether the part goes on after
// it.
func (p part) sample(at, room int) (piece []byte, size int, rest bool) {
	body := p.raw
	if p.quoted {
		body = body[1 : len(body)-1]
	}
	if at = min(at, max(0, len(body)-room)); at > 0 {
		at = p.boundary(body, at)
	}
	end := at
	for ; end < len(body) && size < room; size++ {
		if !p.quoted || body[end] != '\\' {
			end++
			continue
		}
		if end++; end < len(body) && body[end] == 'u' {
			end += 4
		}
		end++
	}
	for end = min(end, len(body)); end < len(body) && !utf8.RuneStart(body[end]); {
		end++
	}
	return body[at:end], size, end < len(body)
}

// boundary returns the next offset at which a sample may start: the offset of a space if there is
// one near.
func (p part) boundary(body []byte, at int) int {
	if space := bytes.IndexByte(body[at:min(at+maxWordBytes, len(body))], ' '); space >= 0 {
		return at + space
	}
	if p.quoted {
		const escape = len(`\u0000`)
		if n := bytes.LastIndex(body[max(0, at-escape+1):at], []byte(`\u`)); n >= 0 {
			at = min(max(0, at-escape+1)+n+escape, len(body))
		}
	}
	for at < len(body) && (p.quoted && body[at-1] == '\\' || !utf8.RuneStart(body[at])) {
		at++
	}
	return at
}
