package result

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Bounds of the description of held-back parts.
const (
	maxDescribed = 8    // parts with a description of their own; the rest share one
	maxTextChars = 1800 // of a description
	minTextChars = 700
	toldViews    = 2 // selectors in a description
)

// rebuild writes a result with held-back parts, or a result in JSON.
func (s *shaper) rebuild(result []byte, status string) ([]byte, error) {
	e := envelope{status: status, summary: []byte(`""`), provenance: s.from, stats: stats{
		strategy: strategyPassthrough, thresholdChars: s.ThresholdChars,
		originalChars: s.joinedChars(), originalTokens: -1, summaryTokens: -1}}
	if s.Bare {
		result = bareResult(status)
	}
	h := holder{shaper: s, env: &e}
	if !s.holdText {
		e = s.passEnvelope(status)
		h.shown = e.stats.summaryChars
	}
	out := h.content()
	if s.holdsStructured() {
		if note := h.describeStructured(); note != "" {
			out = append(out, AppendText(nil, note))
		}
	}
	h.finish()
	s.keepPassed(&e)
	doc := e.appendJSON(make([]byte, 0, 1024), s.format != FormatJSON)
	if s.format == FormatJSON {
		out = append(rawjson.Parts{AppendText(nil, string(doc))}, s.media()...)
	}
	changes := []rawjson.Change{{Key: "content", Value: append(append(rawjson.Parts{{'['}}, separated(out)...), []byte{']'})}}
	if s.format == FormatJSON {
		changes = append(changes, rawjson.Change{Key: "structuredContent", Value: rawjson.Parts{doc}})
	} else {
		if s.holdsStructured() && !s.Bare {
			changes = append(changes, rawjson.Change{Key: "structuredContent"})
		}
		with, err := withEnvelope(rawjson.Get(result, "_meta"), doc)
		if err != nil {
			return nil, err
		}
		changes = append(changes, with)
	}
	next, err := rawjson.Edit(result, changes...)
	if err != nil {
		return nil, err
	}
	return s.Make(result, next.WriteParts)
}

// separated puts commas between values.
func separated(values rawjson.Parts) rawjson.Parts {
	out := make(rawjson.Parts, 0, 2*len(values))
	for i, v := range values {
		if i > 0 {
			out = append(out, []byte{','})
		}
		out = append(out, v)
	}
	return out
}

// keepPassed stores the parts that the agent has whole, if all parts are kept. A part that cannot be
// stored makes the result a partial one, as where it would have been held back.
func (s *shaper) keepPassed(e *envelope) {
	if !s.KeepAll {
		return
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.hold {
			continue
		}
		mime, label, data := "application/json", s.label(b.kind), b.raw
		switch {
		case b.text != nil:
			mime, label, data = "text/plain", s.label(""), []byte(rawjson.Text(b.text))
		case b.data != nil:
			if decoded, err := s.Make.decoded(b.data); err == nil {
				mime, data = cmp.Or(rawjson.Text(rawjson.Get(b.raw, "mimeType")), "application/octet-stream"), decoded
			}
		}
		a, err := s.keep(mime, label, data, nil)
		switch {
		case err == nil:
			e.artifacts = append(e.artifacts, a)
		case e.status == statusOK:
			e.status = statusPartial
		}
	}
}

// isCopy reports whether structuredContent repeats the text. Servers send both for clients that
// know only one of them.
func (s *shaper) isCopy() bool {
	if s.texts == 0 {
		return false
	}
	whole, err := s.wholeText() // of one row a block: an array
	if err != nil {
		return false
	}
	text, _ := s.Make.finite(whole, s.Tables.Grow)
	same := func(v []byte) bool {
		if len(v) > 0 && v[0] == '"' {
			own, err := s.Make.view(v)
			return err == nil && bytes.Equal(own, text)
		}
		return sameJSON(v, text)
	}
	if same(s.structured) {
		return true
	}
	// Frameworks wrap a plain return value as {"result": …} or {"content": …}.
	var only []byte
	members := 0
	if s.structured[0] != '{' || rawjson.EachMember(s.structured, func(m rawjson.Member) bool {
		members++
		only = m.Value
		return members < 2
	}) != nil {
		return false
	}
	return members == 1 && same(only)
}

// sameJSON reports whether two texts are the same JSON value, regardless of white space, escapes
// and the order of keys.
func sameJSON(a, b []byte) bool {
	if a, b = bytes.TrimSpace(a), bytes.TrimSpace(b); len(a) == 0 || len(b) == 0 || a[0] != b[0] {
		return false
	}
	if bytes.Equal(a, b) {
		return true
	}
	if a, b = compact(nil, a), compact(nil, b); bytes.Equal(a, b) {
		return true
	}
	if len(a) > maxCompared || len(b) > maxCompared || len(a) > 6*len(b) || len(b) > 6*len(a) {
		return false
	}
	x, ok := rawjson.AppendCanonical(make([]byte, 0, len(a)), a)
	if !ok {
		return false
	}
	y, ok := rawjson.AppendCanonical(make([]byte, 0, len(b)), b)
	return ok && bytes.Equal(x, y)
}

// maxCompared is the size of the largest values with different bytes that sameJSON compares.
const maxCompared = 8 << 20

// clean removes secrets from a description of the result.
func (s *shaper) clean(text string) string {
	if s.Redact == nil {
		return text
	}
	return s.Redact(text)
}

// label names an artifact after its tool and its part.
func (s *shaper) label(part string) string {
	name := ""
	if s.from != nil {
		name = s.from.ToolID
		if name == "" {
			name = s.from.ResourceID + s.from.PromptID
		}
	}
	if part == "" {
		return name
	}
	return strings.TrimPrefix(name+" "+part, " ")
}

// media returns the media blocks that pass.
func (s *shaper) media() (out rawjson.Parts) {
	for i := range s.blocks {
		if b := &s.blocks[i]; b.data != nil && !b.hold {
			out = append(out, b.raw)
		}
	}
	return out
}

// holder stores held-back parts and writes their descriptions.
type holder struct {
	*shaper
	env    *envelope
	shown  int // characters of text shown
	parts  int // described so far
	notes  []string
	losses []string

	ref   string // the first part that can be viewed
	views [][]byte
}

// content returns the content blocks.
func (h *holder) content() (out rawjson.Parts) {
	var rest, links rawjson.Parts
	textDone, together := false, 0
	for i := range h.blocks {
		if h.blocks[i].hold && h.blocks[i].kind == "resource_link" {
			together++
		}
	}
	for i := range h.blocks {
		b := &h.blocks[i]
		switch {
		case !b.hold:
			out = append(out, b.raw)
		case b.text != nil && textDone:
		case b.text != nil:
			textDone = true
			out = append(out, AppendText(nil, h.describeText()))
		case b.kind == "resource_link" && together > 1:
			// A list: its links are rows of one table.
			links = append(links, b.raw)
		case h.parts >= maxDescribed:
			rest = append(rest, b.raw)
		default:
			out = append(out, AppendText(nil, h.describeBlock(b)))
		}
	}
	if links != nil {
		name := strconv.Itoa(together) + " resource links"
		if together < h.linksAll() {
			name = strconv.Itoa(together) + " more resource links"
		}
		out = append(out, AppendText(nil, h.describeList(name, h.label("resource links"), links, h.texts == 0)))
	}
	if rest != nil {
		out = append(out, AppendText(nil, h.describeList("the other content blocks", h.label("other blocks"), rest, false)))
	}
	return out
}

// describeList stores several blocks as one array and returns its description.
func (h *holder) describeList(name, label string, blocks rawjson.Parts, main bool) string {
	whole, err := h.Make(blocks[0], func(w io.Writer) error {
		for i, b := range blocks {
			begin := ",\n"
			if i == 0 {
				begin = "["
			}
			if err := (rawjson.Parts{[]byte(begin), b}).WriteParts(w); err != nil {
				return err
			}
		}
		_, err := w.Write([]byte{']'})
		return err
	})
	if err != nil {
		return h.note(h.lost(name, err))
	}
	return h.describePart(name, "application/json", label, whole, main)
}

// linksAll counts the resource links, including those that pass.
func (h *holder) linksAll() (n int) {
	for i := range h.blocks {
		if h.blocks[i].kind == "resource_link" {
			n++
		}
	}
	return n
}

// describeText stores the text and returns its description.
func (h *holder) describeText() string {
	whole, err := h.wholeText()
	if err != nil {
		return h.note(h.lost("", err))
	}
	return h.describePart("", "", h.label(""), whole, true)
}

// describeBlock stores a block other than text and returns its description.
func (h *holder) describeBlock(b *block) string {
	if h.Bare {
		return h.describeBare(b)
	}
	if b.data != nil {
		return h.describeBinary(b.kind, rawjson.Text(rawjson.Get(b.raw, "mimeType")), h.label(b.kind), b.data, b.raw)
	}
	if b.kind == "resource" {
		resource := rawjson.Get(b.raw, "resource")
		uri, mime := rawjson.Text(rawjson.Get(resource, "uri")), rawjson.Text(rawjson.Get(resource, "mimeType"))
		name := "resource " + text.Line(h.clean(uri), 200)
		if blob := rawjson.Get(resource, "blob"); len(blob) > 0 && blob[0] == '"' {
			return h.describeBinary(name, mime, text.Fit(h.clean(uri), 200), blob, b.raw)
		}
		if content := rawjson.Get(resource, "text"); len(content) > 0 && content[0] == '"' {
			whole, err := h.Make.text(content)
			if err != nil {
				return h.note(h.lost(name, err))
			}
			return h.describePart(name, mime, text.Fit(h.clean(uri), 200), whole, h.texts == 0)
		}
	}
	return h.describePart("a content block of type "+text.Line(b.kind, 60), "application/json", h.label(b.kind), b.raw, h.texts == 0)
}

// describeBare is describeBlock without the names that the server gives.
func (h *holder) describeBare(b *block) string {
	const name = "a part"
	resource := rawjson.Get(b.raw, "resource")
	data := b.data
	if blob := rawjson.Get(resource, "blob"); len(blob) > 0 && blob[0] == '"' {
		data = blob
	}
	if data != nil {
		return h.describeBinary(name, "", h.label(""), data, b.raw)
	}
	if content := rawjson.Get(resource, "text"); len(content) > 0 && content[0] == '"' {
		if whole, err := h.Make.text(content); err == nil {
			return h.describePart(name, "", h.label(""), whole, h.texts == 0)
		}
	}
	return h.describePart(name, "application/json", h.label(""), b.raw, h.texts == 0)
}

// describeBinary stores decoded base64, or the block itself if it is not base64.
func (h *holder) describeBinary(name, mime, label string, base64Text, raw []byte) string {
	data, err := h.Make.decoded(base64Text)
	switch {
	case errors.Is(err, errNotBase64):
		return h.describePart(name, "application/json", label, raw, false)
	case err != nil:
		return h.note(h.lost(name, err))
	}
	if mime == "" {
		mime = "application/octet-stream"
	}
	if utf8.Valid(data) && (strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "json")) {
		return h.describePart(name, mime, label, data, h.texts == 0)
	}
	var d doc
	noTable := errors.New("it cannot be shown as text")
	if columnar.Is(data) {
		d, noTable = describeTableFile(mime, data, table.Options{Grow: h.Tables.Grow}, h.clean, h.Make)
	}
	if h.Bare && noTable == nil {
		d.bare(h.Names)
	} else if h.Bare {
		noTable = errors.New("it cannot be shown as text") // the reason may quote it
	}
	h.parts++
	a, err := h.keep(mime, label, data, nil)
	if err != nil {
		return h.note(h.lost(name, err))
	}
	h.env.artifacts = append(h.env.artifacts, a)
	if noTable == nil {
		if h.ref == "" {
			h.ref, h.views = a.Handle, d.views
		}
		return h.note(d.text(name+": "+text.Line(mime, 80), a.Handle, min(maxTextChars, max(minTextChars, h.ThresholdChars))))
	}
	return h.note(name + ": " + text.Line(mime, 80) + ", " + strconv.Itoa(len(data)) + " bytes, held back as " + a.Handle + " (binary: " + text.Line(noTable.Error(), text.MaxMessageChars) + ")")
}

// note counts the text that replaces a part.
func (h *holder) note(text string) string {
	h.shown += utf8.RuneCountInString(text)
	h.notes = append(h.notes, text)
	return text
}

// lost returns the text for a part that could not be stored.
func (h *holder) lost(name string, err error) string {
	if h.env.status == statusOK {
		h.env.status = statusPartial
	}
	if name == "" {
		name = "the rest of the text"
	}
	h.losses = append(h.losses, name+" could not be kept: "+text.Line(err.Error(), text.MaxMessageChars))
	return h.losses[len(h.losses)-1]
}

// describePart stores textual data and returns a short description with the ways to read more. main
// means that the envelope's summary describes this part.
func (h *holder) describePart(name, mime, label string, data []byte, main bool) string {
	h.parts++
	data, nulled := h.Make.finite(data, h.Tables.Grow)
	digest := artifact.DigestOf(data) // while the text is described
	defer digest.Sum()
	d := describe(data, h.Tables, h.clean, h.Make)
	if h.Bare {
		d.bare(h.Names)
	}
	if nulled > 0 {
		d.facts = append(d.facts, rawjson.FiniteNote(nulled))
		d.structure = append([]string{rawjson.FiniteNote(nulled)}, d.structure...)
	}
	if mime == "" || d.kind != docText {
		mime = d.mediaType
	}
	digest.Rows = d.rows
	a, err := h.keep(mime, label, data, digest)
	main = main && h.env.stats.artifactRef == ""
	limit := min(maxTextChars, max(minTextChars, h.ThresholdChars))
	if !main {
		limit /= 3
	}
	var text string
	if err != nil {
		text = d.text(name, "", limit) + "\n" + h.lost(name, err)
	} else {
		h.env.artifacts = append(h.env.artifacts, a)
		text = d.text(name, a.Handle, limit)
		if h.ref == "" {
			h.ref, h.views = a.Handle, d.views
		}
	}
	if name != "" { // the text itself has been counted
		h.env.stats.originalChars += d.chars
		h.env.stats.originalTokens = -1
	}
	if main {
		h.env.stats.strategy = map[docKind]string{docText: strategySummary, docJSON: strategyProjection, docTable: strategyTable}[d.kind]
		h.env.stats.artifactRef = a.Handle
		h.env.summary = rawjson.Quote(d.summaryText())
		h.env.facts = d.facts
		h.env.views = d.views
		if err != nil {
			h.env.views = nil
		}
	} else if h.env.stats.strategy == strategyPassthrough {
		h.env.stats.strategy = strategyProjection
	}
	return h.note(text)
}

// maxInlined is the size of the largest structuredContent that is shown next to held-back text. A
// description of it with a handle would be longer.
const maxInlined = 200

// describeStructured stores structuredContent and returns its description, or "" if the text says
// the same. It returns a small one itself.
func (h *holder) describeStructured() string {
	const name = "structuredContent"
	if h.isCopy() {
		return "" // one handle is enough
	}
	if h.format != FormatJSON && len(h.structured) <= min(maxInlined, h.passChars()) {
		note := name + ": " + string(h.structured)
		h.notes = append(h.notes, note)
		h.shown += utf8.RuneCountInString(note)
		return note
	}
	return h.describePart(name, "application/json", h.label(name), h.structured, h.texts == 0)
}

// finish computes the envelope's statistics after all parts have been described.
func (h *holder) finish() {
	e := h.env
	e.facts = append(e.facts, h.losses...)
	if len(e.artifacts) > 0 && e.stats.strategy == strategyPassthrough {
		e.stats.strategy = strategyProjection
	}
	switch {
	case e.stats.artifactRef != "":
	case h.ref != "":
		e.stats.artifactRef, e.views = h.ref, h.views
	case len(e.artifacts) > 0:
		e.stats.artifactRef = e.artifacts[0].Handle
	}
	e.stats.summaryChars = h.shown
	if h.CountTokens == nil || len(h.notes) == 0 || !h.holdText && h.texts > 0 && e.stats.summaryTokens < 0 {
		return // or the text that passed was too long to count
	}
	e.stats.summaryTokens = max(e.stats.summaryTokens, 0) + h.CountTokens(strings.Join(h.notes, "\n"))
}

// summaryText returns the envelope's summary of a held-back part.
func (d *doc) summaryText() string {
	switch d.kind {
	case docTable:
		if d.resourceURL != "" {
			return "resource_url: " + d.resourceURL + "\n" + text.Fit(d.headline+"; columns: "+d.columns, maxSummaryChars)
		}
		return text.Fit(d.headline+"; columns: "+d.columns, maxSummaryChars)
	case docJSON:
		if d.resourceURL != "" {
			return "resource_url: " + d.resourceURL + "\n" + text.Fit(strings.Join(append([]string{d.headline}, d.structure...), "\n"), maxSummaryChars)
		}
		return text.Fit(strings.Join(append([]string{d.headline}, d.structure...), "\n"), maxSummaryChars)
	}
	return d.summary
}

// text returns the description that replaces the part: its kind, its summary or structure, the
// handle, and views. It has about limit characters; the summary, the handle and the views are never
// cut.
func (d *doc) text(name, handle string, limit int) string {
	var head, tail strings.Builder
	if name != "" {
		head.WriteString(name + ": ")
	}
	head.WriteString(d.headline)
	if d.resourceURL != "" {
		tail.WriteString("\nresource_url: " + d.resourceURL)
	}
	if handle != "" {
		tail.WriteString("\nHeld back as " + handle + ". tool_view shows more, e.g.")
		told := d.views[:min(len(d.views), toldViews)]
		if d.kind == docTable {
			told = told[:min(len(told), 1)]
		}
		for i, v := range told {
			if i > 0 {
				tail.WriteString(" or")
			}
			tail.WriteByte(' ')
			tail.Write(v)
		}
		if d.kind == docTable {
			tail.WriteString("; {\"$table\":\"<handle>\"} passes it to a tool")
		}
	}
	if d.kind == docText {
		ending := strings.Join(d.ending, "\n")
		if ending != "" {
			ending = "\n" + ending
		}
		return d.textWithin(head.String(), ending+tail.String(), limit)
	}
	room := limit - utf8.RuneCountInString(head.String()) - utf8.RuneCountInString(tail.String())
	add := func(line string) bool {
		n := utf8.RuneCountInString(line) + 1
		if n > room {
			return false
		}
		room -= n
		head.WriteString("\n" + line)
		return true
	}
	if d.columns != "" && !add("columns: "+d.columns) {
		add("columns: " + text.Fit(d.columns, max(room-10, 40)))
	}
	for _, line := range d.structure {
		if !add("- " + line) {
			add("- …")
			break
		}
	}
	for i, row := range d.samples {
		label := "first rows:\n"
		if d.kind != docTable {
			label = "first items:\n"
		}
		if i > 0 {
			label = ""
		}
		if !add(label + row) {
			break
		}
	}
	return head.String() + tail.String()
}

// textWithin is text of a part that is text: first lines, headings and facts as far as there is room
// between head and tail.
func (d *doc) textWithin(head, tail string, limit int) string {
	room := limit - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	for i, line := range slices.Concat(d.lead, d.outline, d.named) {
		if room -= utf8.RuneCountInString(line) + 1; room < 0 && i > 0 {
			break
		}
		head += "\n" + line
	}
	return head + tail
}
