package result

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/text"
)

// Keys under which weir reads and writes _meta.
const (
	// MetaEnvelope is the result's _meta key for the envelope of a tool call. It is meant for
	// programs, not for models.
	MetaEnvelope = "weir/envelope"
	// MetaFormat is the request's _meta key with which a program asks for JSON instead of text,
	// {"weir/format":"json"}, or for whole results, {"weir/format":"raw"}.
	MetaFormat = "weir/format"
	// MetaError is the key in a result's _meta that marks an error of the gateway itself, in
	// FormatRaw.
	MetaError = "weir/error"
	// MetaTask is the key in a result's _meta with the handle of a task that still runs. It is there
	// for programs, which ask for a format.
	MetaTask = "weir/task"
)

// Status values of an envelope. isError of the result is true exactly for statusError.
const (
	statusOK      = "ok"
	statusPartial = "partial" // a part could be neither shown nor stored
	statusError   = "error"
)

// Strategies of the firewall.
const (
	strategyPassthrough = "passthrough" // nothing was held back
	strategySummary     = "summary"     // text, held back behind its first paragraph
	strategyTable       = "table"       // rows and columns, held back behind their description
	strategyProjection  = "projection"  // other JSON, or single parts, held back behind their description
)

// Provenance describes the origin of a result. Each field is written under its name in the
// envelope's provenance; empty fields are omitted.
type Provenance struct {
	Tool       string // the upstream's own name of the tool
	Protocol   string // always "mcp" today
	ToolID     string
	ResourceID string
	PromptID   string
	Primitive  string // "resource" or "prompt"

	Selection  *Selection  // set if the tool_id had to be repaired
	ArgRepairs []ArgRepair // changes by tolerant argument normalisation
	CacheHit   bool

	annotations []partAnnotations
}

// ArgRepair is one repair of tolerant argument normalisation
// (spec/gateway §4.4).
type ArgRepair struct {
	Path string // where in the arguments: "$" is all of them, "$.limit" one field
	Rule string // which rule
}

type partAnnotations struct {
	part int
	raw  []byte
}

// stats are the envelope's firewall_stats. A negative token count is unknown and omitted.
type stats struct {
	strategy       string
	thresholdChars int
	originalChars  int
	summaryChars   int
	originalTokens int
	summaryTokens  int
	artifactRef    string
}

// envelope is the ResultEnvelope of spec/gateway §4.2 before it is written.
type envelope struct {
	status     string
	summary    []byte // a JSON string
	facts      []string
	artifacts  []artifact.Artifact
	views      [][]byte // selectors for tool_view, each a JSON object
	provenance *Provenance
	stats      stats
}

// appendJSON appends the envelope to dst, with keys in the order of the contract. In _meta it has no
// summary and no facts, because they repeat the content, and some clients give _meta to the model.
func (e *envelope) appendJSON(dst []byte, inMeta bool) []byte {
	dst = append(dst, `{"status":"`...)
	dst = append(dst, e.status...)
	if !inMeta {
		dst = append(dst, `","summary":`...)
		dst = append(dst, e.summary...)
		dst = append(dst, `,"facts":[`...)
		for i, f := range e.facts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = rawjson.AppendString(dst, f)
		}
		dst = append(dst, `],"artifacts":[`...)
	} else {
		dst = append(dst, `","artifacts":[`...)
	}
	for i := range e.artifacts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendArtifact(dst, &e.artifacts[i])
	}
	dst = append(dst, `],"views":[`...)
	for i, v := range e.views {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, v...)
	}
	dst = append(dst, `],"provenance":`...)
	dst = e.provenance.appendJSON(dst)
	dst = append(dst, `,"firewall_stats":`...)
	dst = e.stats.appendJSON(dst)
	return append(dst, '}')
}

func AppendArtifact(dst []byte, a *artifact.Artifact) []byte {
	dst = append(dst, `{"handle":`...)
	dst = rawjson.AppendString(dst, a.Handle)
	dst = append(dst, `,"media_type":`...)
	dst = rawjson.AppendString(dst, a.MediaType)
	dst = append(dst, `,"size_bytes":`...)
	dst = strconv.AppendInt(dst, a.SizeBytes, 10)
	dst = append(dst, `,"label":`...)
	dst = rawjson.AppendString(dst, a.Label)
	dst = append(dst, `,"content_hash":`...)
	dst = rawjson.AppendString(dst, a.ContentHash)
	return append(dst, '}')
}

func (p *Provenance) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	key := func(k string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, k...)
		dst = append(dst, '"', ':')
	}
	str := func(k, v string) {
		if v != "" {
			key(k)
			dst = rawjson.AppendString(dst, v)
		}
	}
	str("tool", p.Tool)
	str("protocol", p.Protocol)
	str("tool_id", p.ToolID)
	str("resource_id", p.ResourceID)
	str("prompt_id", p.PromptID)
	str("primitive", p.Primitive)
	if len(p.annotations) > 0 {
		key("content_annotations")
		for i, a := range p.annotations {
			dst = append(dst, "[,"[min(i, 1)])
			dst = append(dst, `{"part":`...)
			dst = strconv.AppendInt(dst, int64(a.part), 10)
			dst = append(dst, `,"annotations":`...)
			dst = append(append(dst, a.raw...), '}')
		}
		dst = append(dst, ']')
	}
	if len(p.ArgRepairs) > 0 {
		key("arg_repairs")
		dst = AppendRepairs(dst, p.ArgRepairs)
	}
	if p.Selection != nil {
		key("selection")
		dst = p.Selection.AppendJSON(dst)
	}
	if p.CacheHit {
		key("cache_hit")
		dst = append(dst, "true"...)
	}
	return append(dst, '}')
}

func AppendRepairs(dst []byte, repairs []ArgRepair) []byte {
	for i, r := range repairs {
		dst = append(dst, "[,"[min(i, 1)])
		dst = append(dst, `{"path":`...)
		dst = rawjson.AppendString(dst, r.Path)
		dst = append(dst, `,"rule":`...)
		dst = rawjson.AppendString(dst, r.Rule)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func (s *stats) appendJSON(dst []byte) []byte {
	number := func(k string, n int) {
		dst = append(append(append(dst, ',', '"'), k...), '"', ':')
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	dst = append(dst, `{"triggered":`...)
	dst = strconv.AppendBool(dst, s.strategy != strategyPassthrough)
	dst = append(dst, `,"strategy":"`...)
	dst = append(append(dst, s.strategy...), '"')
	number("threshold_chars", s.thresholdChars)
	number("original_chars", s.originalChars)
	if s.originalTokens >= 0 {
		number("original_tokens", s.originalTokens)
	}
	number("summary_chars", s.summaryChars)
	if s.summaryTokens >= 0 {
		number("summary_tokens", s.summaryTokens)
	}
	dst = append(dst, `,"artifact_ref":`...)
	if s.artifactRef == "" {
		dst = append(dst, "null"...)
	} else {
		dst = rawjson.AppendString(dst, s.artifactRef)
	}
	return append(dst, '}')
}

// withEnvelope returns the change of a result that adds the envelope to meta, its member _meta, which may be nil.
func withEnvelope(meta, envelope []byte) (rawjson.Change, error) {
	if !rawjson.IsObject(meta) { // null or not an object: a member cannot be added to it
		meta = []byte("{}")
	}
	inner, err := rawjson.Edit(meta, rawjson.Change{Key: MetaEnvelope, Value: rawjson.Parts{envelope}})
	return rawjson.Change{Key: "_meta", Value: inner}, err
}

// spliceMeta returns result, a valid JSON object, with envelope added to its _meta. meta is that
// member's value as a slice of result, or nil. All other bytes of result stay the same.
func (s *shaper) spliceMeta(result, meta, envelope []byte) ([]byte, error) {
	if meta != nil || len(result) > memory.Free {
		with, err := withEnvelope(meta, envelope)
		if err != nil {
			return nil, err
		}
		out, err := rawjson.Edit(result, with)
		if err != nil {
			return nil, err
		}
		return s.Make(result, out.WriteParts)
	}
	end := bytes.LastIndexByte(result, '}')
	empty := rawjson.SkipSpace(result, rawjson.SkipSpace(result, 0)+1) == end
	out := make([]byte, 0, len(result)+len(envelope)+len(MetaEnvelope)+16)
	out = append(out, result[:end]...)
	if !empty {
		out = append(out, ',')
	}
	out = append(out, `"_meta":{"`+MetaEnvelope+`":`...)
	out = append(out, envelope...)
	out = append(out, '}')
	return append(out, result[end:]...), nil
}

// maxSummaryChars bounds an envelope's summary of a result that was held back.
const maxSummaryChars = 500

// cleanedSummary is how many characters are cleaned before a summary is cut.
const cleanedSummary = 8 * maxSummaryChars

// summarize returns the first paragraph of text in at most maxSummaryChars characters. It cuts
// after a sentence if possible; "…" marks a cut. It removes secrets before the cut, because half a
// secret is not recognised.
func summarize(content string, clean func(string) string) string {
	p := firstParagraph(content, utf8.UTFMax*cleanedSummary)
	head := text.Cut(p, cleanedSummary)
	whole := len(head) == len(p)
	p = clean(head)
	if len(text.Cut(p, maxSummaryChars)) == len(p) {
		if !whole {
			p += "…"
		}
		return p
	}
	p = text.Cut(p, maxSummaryChars-1)
	for i := len(p) - 1; i > 0; i-- {
		if p[i] != ' ' && p[i] != '\n' && p[i] != '\t' {
			continue
		}
		if c := p[i-1]; c == '.' || c == '!' || c == '?' {
			return p[:i] + "…"
		}
	}
	return p + "…"
}

// firstParagraph returns the text before the first blank line, without surrounding white space. It
// does not look for the end of a paragraph of more than enough bytes, and returns all text.
func firstParagraph(text string, enough int) string {
	text = trimSpace(text)
	for at := 0; ; {
		n := strings.IndexByte(text[at:max(at, min(len(text), enough))], '\n')
		if n < 0 {
			return text
		}
		n += at
		rest := n + 1
		for rest < len(text) && (text[rest] == ' ' || text[rest] == '\t' || text[rest] == '\r') {
			rest++
		}
		if rest < len(text) && text[rest] == '\n' {
			return trimSpace(text[:n])
		}
		at = n + 1
	}
}

// Bounds of facts: the first maxFacts lines with a colon that are shorter than maxFactChars.
const (
	maxFactChars = 200
	maxFacts     = 20
)

// factsOf returns the lines of text that give a value for a name.
func factsOf(text string) []string {
	var facts []string
	for len(text) > 0 && len(facts) < maxFacts {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		line = trimSpace(line)
		if len(line) < utf8.UTFMax*maxFactChars && strings.IndexByte(line, ':') >= 0 && utf8.RuneCountInString(line) < maxFactChars {
			facts = append(facts, line)
		}
	}
	return facts
}

// trimSpace is strings.TrimSpace with the byte order mark counted as space.
func trimSpace(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
}
