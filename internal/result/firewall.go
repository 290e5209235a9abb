package result

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Format selects the form of a meta-tool's answer.
type Format uint8

// Formats. FormatDefault means the gateway's configured format.
const (
	FormatDefault Format = iota
	FormatText           // text for a model, the envelope in _meta
	FormatJSON           // the envelope as text and as structuredContent, for programs
	FormatRaw            // the tool's own result, whole: nothing is held back or added
)

// Defaults of Firewall.
const (
	defaultThresholdChars = 2000
	defaultMaxMediaBytes  = 1 << 20

	maxCounted = 8000 // characters whose tokens are counted synchronously
)

// Firewall decides which parts of a result a model reads. It is a pure function of the raw result:
// parts that pass are not decoded and encoded again. The zero value uses the defaults.
type Firewall struct {
	// ThresholdChars is the number of characters of text that pass whole. 0 means
	// defaultThresholdChars; a negative value holds back all text. Up to half as many more pass, at
	// most 1,000, because a description and a call of tool_view cost as much.
	ThresholdChars int
	// PassTokens is the number of tokens of text that always pass whole. 0 means none.
	PassTokens int
	// MaxMediaBytes is the size of the largest image or sound that passes; 0 means
	// defaultMaxMediaBytes.
	MaxMediaBytes int
	// KeepAll also stores the parts that pass, and lists them in the envelope.
	KeepAll bool
	// CountTokens, if set, returns the exact number of tokens of a text. The original is counted
	// only if it is shown whole and has at most 8,000 characters, because counting a large text
	// would delay the answer.
	CountTokens func(text string) int
	// Make, if set, makes large texts and decoded parts of the result. It decides where they are while
	// the result is described. Nil makes them on the heap.
	Make Maker
	// Tables extends what counts as a table in the result; the zero value adds nothing.
	Tables table.DetectOptions
	// Bare holds back every part, and describes it only by its size and its types, and by the Names, which are those of
	// the tool's schema.
	Bare  bool
	Names []string
	// Redact, if set, removes secrets from descriptions of a result: summary, facts, structure and
	// samples. The content itself passes unchanged.
	Redact func(text string) string
}

// Keeper stores held-back bytes: artifact.Place.PutDigested for one principal. A nil digest has not
// started.
type Keeper func(mediaType, label string, data []byte, digest *artifact.Digest) (artifact.Artifact, error)

// errBadResult is returned if an upstream's result is not a tool result.
var errBadResult = errors.New("malformed tool result")

// resultKeys are the members of a result that the firewall reads.
var resultKeys = []string{"content", "structuredContent", "_meta", "isError", "resultType"}

// finding describes a result that Shape has processed.
type finding struct {
	Tokens  int  // of a result that passed whole and was counted, else -1
	IsError bool // the tool reports a failure
	Bare    bool // the answer has nothing that the server has written
}

// Shape returns the result for the agent. Below the threshold, the content blocks keep their bytes
// and the envelope is added to _meta. Text over the threshold, binary parts, embedded resources and
// large structuredContent are passed to keep, and a short description replaces them. An incomplete
// result (input_required) is returned as it is. The error is errBadResult with the reason.
func (f Firewall) Shape(result []byte, from *Provenance, format Format, keep Keeper) ([]byte, finding, error) {
	about := finding{Tokens: -1}
	var fields [5][]byte
	if err := rawjson.Fields(result, resultKeys, fields[:]); err != nil || len(result) == 0 {
		return nil, about, fmt.Errorf("%w: %v", errBadResult, err)
	}
	if f.Bare {
		f.ThresholdChars, f.PassTokens, f.KeepAll = -1, 0, false
	} else if format != FormatJSON && f.standsIn(fields[0], fields[1]) {
		var err error
		if result, err = withStructuredText(result, fields[1]); err == nil {
			err = rawjson.Fields(result, resultKeys, fields[:])
		}
		if err != nil {
			return nil, about, fmt.Errorf("%w: %v", errBadResult, err)
		}
	}
	about.IsError = string(fields[3]) == "true"
	content, structured, meta := fields[0], fields[1], fields[2]
	if t := fields[4]; t != nil && string(t) != `"complete"` {
		return result, about, nil
	}
	if from == nil {
		from = new(Provenance)
	}
	from.annotations = nil
	s := shaper{Firewall: f.withDefaults(), keep: keep, from: from, format: format}
	if content != nil {
		if err := s.read(content); err != nil {
			return nil, about, err
		}
	}
	status := statusOK
	if about.IsError {
		status = statusError
	}
	if structured != nil && string(structured) != "null" {
		s.structured = structured
	}
	if about.Bare = f.Bare; s.passes() && format != FormatJSON && !f.Bare {
		env := s.passEnvelope(status)
		s.keepPassed(&env)
		buf := env.appendJSON(make([]byte, 0, 512), true)
		out, err := s.spliceMeta(result, meta, buf)
		if s.texts == len(s.blocks) && s.texts > 0 {
			about.Tokens = env.stats.originalTokens
		}
		return out, about, err
	}
	out, err := s.rebuild(result, status)
	return out, about, err
}

// standsIn reports whether the text of structuredContent is the content of a result: there is no other,
// and it passes. Clients that show only content would show nothing. A longer one is described.
func (f Firewall) standsIn(content, structured []byte) bool {
	if len(structured) == 0 || string(structured) == "null" || content != nil && !rawjson.IsEmptyArray(content) {
		return false
	}
	f = f.withDefaults()
	return len(structured) <= f.passChars()
}

// withStructuredText returns a result with the text of its structuredContent as its content.
func withStructuredText(result, structured []byte) ([]byte, error) {
	w := rawjson.NewWriter(make([]byte, 0, len(structured)+len(structured)/4+40)).Array()
	w.Object().Key("type").String("text").Key("text").String(string(structured)).EndObject()
	return rawjson.Set(result, "content", w.EndArray().Bytes())
}

func (f Firewall) withDefaults() Firewall {
	switch {
	case f.ThresholdChars == 0:
		f.ThresholdChars = defaultThresholdChars
	case f.ThresholdChars < 0:
		f.ThresholdChars = 0
	}
	if f.MaxMediaBytes <= 0 {
		f.MaxMediaBytes = defaultMaxMediaBytes
	}
	if f.Make == nil {
		f.Make = makeOnHeap
	}
	return f
}

// block is one content block, as slices of the result.
type block struct {
	raw  []byte
	kind string // its type
	text []byte // of a text block: the raw JSON string
	data []byte // of an image or audio block: the raw JSON string in base64
	size int    // shown size in characters; decoded bytes for media
	hold bool
}

// shaper is the state of one Shape.
type shaper struct {
	Firewall
	keep       Keeper
	from       *Provenance
	format     Format
	blocks     []block
	first      [4]block // room for the usual number
	texts      int      // text blocks
	textChars  int      // characters in all of them
	holdText   bool
	structured []byte
	whole      []byte // wholeText, once requested
	unmade     error  // why there is no wholeText
}

var blockKeys = []string{"type", "text", "data", "annotations"}

// read parses the content array, which Shape has checked, and decides about each block.
func (s *shaper) read(content []byte) error {
	s.blocks = s.first[:0]
	var bad error
	err := rawjson.EachCheckedElement(content, func(v []byte) bool {
		var fields [4][]byte
		if err := rawjson.CheckedFields(v, blockKeys, fields[:]); err != nil {
			bad = fmt.Errorf("%w: content block %d: %v", errBadResult, len(s.blocks), err)
			return false
		}
		b := block{raw: v, kind: KindOf(fields[0]), size: len(v)}
		switch {
		case b.kind == "text" && len(fields[1]) > 0 && fields[1][0] == '"':
			b.text = fields[1]
			b.size = stringChars(b.text)
			s.texts++
			s.textChars += b.size
		case (b.kind == "image" || b.kind == "audio") && len(fields[2]) > 0 && fields[2][0] == '"':
			b.data = fields[2]
			b.size = (len(b.data) - 2) / 4 * 3
		}
		if a := fields[3]; a != nil && !s.Bare {
			s.from.annotations = append(s.from.annotations, partAnnotations{len(s.blocks), a})
		}
		s.blocks = append(s.blocks, b)
		return true
	})
	if bad != nil {
		return bad
	}
	if err != nil {
		return fmt.Errorf("%w: content: %v", errBadResult, err)
	}
	s.holdText = s.textChars > s.passChars() && !s.passesByTokens()
	room := s.passChars()
	if !s.holdText {
		room = max(0, room-s.textChars)
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		switch {
		case s.Bare:
			b.hold = true
		case b.text != nil:
			b.hold = s.holdText
		case b.data != nil:
			b.hold = b.size > s.MaxMediaBytes
		case b.kind == "resource" && s.from.Primitive != "" && rawjson.GetPath(b.raw, "resource", "blob") != nil:
			b.hold = true // models cannot read base64
		case b.size > room || s.holdText && b.kind == "resource" || s.format == FormatJSON:
			b.hold = true
		default:
			room -= b.size
		}
	}
	return nil
}

// maxSlackChars bounds how many characters over the threshold pass.
const maxSlackChars = 1000

// passChars returns how many characters of text pass.
func (f *Firewall) passChars() int {
	return f.ThresholdChars + min(f.ThresholdChars/2, maxSlackChars)
}

// charsPerToken is the maximum mean length of a token in a longer text.
const charsPerToken = 8

// passesByTokens reports whether the text has at most PassTokens tokens. It does not count a text
// that clearly has more.
func (s *shaper) passesByTokens() bool {
	if s.PassTokens == 0 || s.CountTokens == nil || s.textChars > charsPerToken*s.PassTokens {
		return false
	}
	return s.CountTokens(s.joinTexts()) <= s.PassTokens
}

// KindOf returns the usual types without an allocation.
func KindOf(raw []byte) string {
	switch string(raw) {
	case `"text"`:
		return "text"
	case `"image"`:
		return "image"
	case `"audio"`:
		return "audio"
	case `"resource"`:
		return "resource"
	case `"resource_link"`:
		return "resource_link"
	}
	return rawjson.Text(raw)
}

// holdsStructured reports whether structuredContent is held back. If the text passes,
// structuredContent mostly repeats it in more characters.
func (s *shaper) holdsStructured() bool {
	limit := s.passChars()
	if s.texts > 0 {
		limit = 2 * s.ThresholdChars
	}
	return s.structured != nil && (s.holdText || s.format == FormatJSON || len(s.structured) > limit)
}

// passes reports whether nothing is held back.
func (s *shaper) passes() bool {
	if s.holdText || s.holdsStructured() {
		return false
	}
	for i := range s.blocks {
		if s.blocks[i].hold {
			return false
		}
	}
	return true
}

// passEnvelope returns the envelope of a result that passes whole. Its summary is the text itself,
// and is left out unless the envelope is the content.
func (s *shaper) passEnvelope(status string) envelope {
	e := envelope{status: status, summary: []byte(`""`), provenance: s.from, stats: stats{
		strategy: strategyPassthrough, thresholdChars: s.ThresholdChars,
		originalChars: s.joinedChars(), summaryChars: s.joinedChars(), originalTokens: -1, summaryTokens: -1}}
	var text string
	decoded := false
	counts := s.CountTokens != nil && s.textChars <= maxCounted
	switch {
	case s.texts == 0 && s.CountTokens != nil:
		e.stats.originalTokens, e.stats.summaryTokens = 0, 0
	case s.format != FormatJSON:
		if counts {
			e.stats.originalTokens = s.CountTokens(s.joinTexts())
			e.stats.summaryTokens = e.stats.originalTokens
		}
	case s.texts == 1:
		for i := range s.blocks {
			if t := s.blocks[i].text; t != nil {
				e.summary = t
				if counts || s.Redact != nil || bytes.IndexByte(t, ':') >= 0 {
					text, decoded = rawjson.Text(t), true
				}
			}
		}
	case s.texts > 1:
		text, decoded = s.joinTexts(), true
		e.summary = rawjson.Quote(text)
	}
	if decoded {
		clean := text
		if s.Redact != nil {
			if clean = s.Redact(text); clean != text {
				e.summary = rawjson.Quote(clean)
			}
		}
		e.facts = factsOf(clean)
		if counts {
			e.stats.originalTokens = s.CountTokens(text)
			e.stats.summaryTokens = e.stats.originalTokens
		}
	}
	return e
}

// joinedChars returns the length of joinTexts in characters.
func (s *shaper) joinedChars() int { return s.textChars + max(s.texts-1, 0) }

// joinTexts returns the text of all text blocks, separated by line breaks.
func (s *shaper) joinTexts() string {
	if s.texts == 1 {
		for i := range s.blocks {
			if t := s.blocks[i].text; t != nil {
				return rawjson.Text(t)
			}
		}
	}
	var b strings.Builder
	first := true
	for i := range s.blocks {
		if t := s.blocks[i].text; t != nil {
			if !first {
				b.WriteByte('\n')
			}
			first = false
			b.WriteString(rawjson.Text(t))
		}
	}
	return b.String()
}

// wholeText returns the bytes to store if text is held back: the text itself, or an array if each
// block is a JSON object. Some servers send a list so, one row per block.
func (s *shaper) wholeText() ([]byte, error) {
	if s.whole == nil && s.unmade == nil {
		s.whole, s.unmade = s.readText()
	}
	return s.whole, s.unmade
}

func (s *shaper) readText() ([]byte, error) {
	if s.texts == 1 {
		for i := range s.blocks {
			if t := s.blocks[i].text; t != nil {
				return s.Make.text(t)
			}
		}
	}
	rows, err := s.Make(s.blocks[0].raw, s.writeRows)
	if !errors.Is(err, errNoRow) {
		return rows, err
	}
	return s.Make(s.blocks[0].raw, func(w io.Writer) error {
		return s.eachText(func(i int, text []byte) error {
			if i > 0 {
				if _, err := io.WriteString(w, "\n"); err != nil {
					return err
				}
			}
			_, err := w.Write(text)
			return err
		})
	})
}

// eachText calls f with the text of each text block.
func (s *shaper) eachText(f func(i int, text []byte) error) error {
	n := 0
	for i := range s.blocks {
		t := s.blocks[i].text
		if t == nil {
			continue
		}
		text, err := s.Make.text(t)
		if err != nil {
			return err
		}
		if err := f(n, text); err != nil {
			return err
		}
		n++
	}
	return nil
}

// errNoRow says that a text block is not a JSON object.
var errNoRow = errors.New("a text that is no row")

// writeRows writes the texts as an array of rows.
func (s *shaper) writeRows(w io.Writer) error {
	err := s.eachText(func(i int, text []byte) error {
		row := viewOf(trimSpace(textOf(text)))
		if len(row) == 0 || row[0] != '{' {
			return errNoRow
		}
		if clean, _ := s.Make.finite(row, s.Tables.Grow); rawjson.Valid(clean) != nil {
			return errNoRow
		}
		before := ",\n"
		if i == 0 {
			before = "["
		}
		_, err := io.WriteString(w, before)
		if err == nil {
			_, err = w.Write(row)
		}
		return err
	})
	if err == nil {
		_, err = io.WriteString(w, "]")
	}
	return err
}

// stringChars counts the characters of a raw JSON string without decoding it.
func stringChars(raw []byte) int {
	body := raw[1 : len(raw)-1]
	n := 0
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return n + runeCount(body)
		}
		n += runeCount(body[:i]) + 1
		body = body[i:]
		if body[1] != 'u' {
			body = body[2:]
			continue
		}
		// A surrogate pair is one character.
		if high := hex16(body[2:6]); high >= 0xD800 && high < 0xDC00 && len(body) >= 12 && body[6] == '\\' && body[7] == 'u' {
			if low := hex16(body[8:12]); low >= 0xDC00 && low < 0xE000 {
				body = body[6:]
			}
		}
		body = body[6:]
	}
}

// runeCount is utf8.RuneCount, 32 or eight bytes at a time for ASCII.
func runeCount(b []byte) int {
	n := 0
	for len(b) >= 8 {
		if len(b) >= 32 && ascii32(b) {
			n += 32
			b = b[32:]
			continue
		}
		if binary.LittleEndian.Uint64(b)&highBits == 0 {
			n += 8
			b = b[8:]
			continue
		}
		// A character may start in these bytes and end after them.
		for range 8 {
			_, size := utf8.DecodeRune(b)
			if size == 0 {
				break
			}
			n++
			b = b[size:]
		}
	}
	return n + utf8.RuneCount(b)
}

// ascii32 reports whether the first 32 bytes of b are ASCII.
func ascii32(b []byte) bool {
	w, x := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	y, z := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	return (w|x|y|z)&highBits == 0
}

// hex16 parses four valid hexadecimal digits.
func hex16(digits []byte) (v int) {
	for _, c := range digits {
		v <<= 4
		switch {
		case c <= '9':
			v |= int(c - '0')
		default:
			v |= int(c|0x20-'a') + 10
		}
	}
	return v
}
