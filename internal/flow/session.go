package flow

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/text"
)

const (
	// keepFor is how long a label outlasts its last change. No session is resumed later.
	keepFor = 30 * 24 * time.Hour
	// storeTime bounds one request to the store.
	storeTime = 5 * time.Second
	// maxTexts bounds the untrusted texts of a session, in bytes, in which arguments are looked for.
	maxTexts = 48 << 10
)

// Source is a text that has tainted a session.
type Source struct {
	Tool string    `json:"tool"`
	At   time.Time `json:"at"`
	Head string    `json:"head,omitempty"` // its beginning
}

// shown is an untrusted text that was read.
type shown struct{ tool, text string }

// state is what a session has read.
type state struct {
	Label Label
	Read  []Source

	texts []shown
}

// document is the state in the store.
type document struct {
	V     int      `json:"v"`
	Epoch int      `json:"e,omitempty"` // how often a person has cleared the label
	Label Label    `json:"label"`
	Read  []Source `json:"read,omitempty"`
}

// maxDocument bounds the document of a session, in bytes.
const maxDocument = 2 << 10

// encode returns the document within its bound: the beginnings of texts go first.
func (d document) encode() ([]byte, error) {
	value, err := json.Marshal(d)
	if err == nil && len(value) > maxDocument {
		short := make([]Source, len(d.Read))
		for i, one := range d.Read {
			short[i] = Source{Tool: text.Cut(one.Tool, maxTool/2), At: one.At}
		}
		d.Read = short
		value, err = json.Marshal(d)
	}
	return value, err
}

// Session has the label of what the model of a session has read. A nil Session has read nothing. It is safe for
// concurrent use.
type Session struct {
	docs     store.Docs
	kind, id string // of the holder of the label
	shared   bool   // other nodes change it at the same time

	mu     sync.Mutex // guards below
	unread bool       // the document has not been read yet
	epoch  int        // of the document; memory of an earlier one does not count
	*reading
}

// reading is what a session has read. A session that has read nothing has none.
type reading struct {
	now  state
	kept document        // as it was written or read last
	size int             // of texts
	lost bool            // there were more texts
	rows Label           // of tables that other servers may fetch
	told map[string]bool // tools about which observe has logged
}

// lock takes mu. There is a reading until the caller unlocks.
func (s *Session) lock() {
	s.mu.Lock()
	if s.reading == nil {
		s.reading = &reading{}
	}
}

func (s *Session) key() string { return store.FlowKeys + store.Hash(s.kind+"\x00"+s.id) }

// NewSession returns the label of a holder of a kind: "session" or "principal". A fresh one has read nothing; of another one,
// docs has the label. With shared, other nodes of a cluster add to it.
func NewSession(docs store.Docs, kind, id string, fresh, shared bool) *Session {
	return &Session{docs: docs, kind: kind, id: id, shared: shared, unread: !fresh}
}

// Read taints the session with the label of a text that its model is about to be shown. The text is what it is shown.
// When Read returns, the label outlasts the process, where one is asked or refused by it.
func (f *Flow) Read(ctx context.Context, s *Session, l Label, shownText func() json.RawMessage) {
	if f == nil || s == nil || l.Zero() {
		return
	}
	s.lock()
	defer s.mu.Unlock()
	var texts []string // asked for only where they are kept: to find them in a large result costs more than the rest of a call
	if l.Untrusted && shownText != nil && (f.Decides() || !s.knows(l.source())) {
		texts = textsOf(shownText())
	}
	s.add(l, texts, f.Decides())
	if f.Decides() {
		s.keep(ctx, l, texts)
	}
}

// add adds a label and its texts to what the session has read. The caller holds mu.
func (s *Session) add(l Label, texts []string, remember bool) {
	if l.Untrusted {
		s.note(l, texts, remember)
	}
	if !l.within(s.now.Label) || len(s.now.Label.Sources) < maxSources {
		s.now.Label = s.now.Label.Join(l)
	}
}

// knows reports whether a source needs no place among those that the session shows. The caller holds mu.
func (s *Session) knows(tool string) bool {
	return len(s.now.Read) >= maxSources || slices.ContainsFunc(s.now.Read, func(one Source) bool { return one.Tool == tool })
}

// note adds a text to the sources and the texts of the session. The caller holds mu.
func (s *Session) note(l Label, texts []string, remember bool) {
	tool := l.source()
	if !s.knows(tool) {
		one := Source{Tool: tool, At: time.Now().UTC().Truncate(time.Second)}
		if len(texts) > 0 {
			one.Head = text.Line(text.Cut(texts[0], maxHead), maxHead)
		}
		s.now.Read = append(s.now.Read[:len(s.now.Read):len(s.now.Read)], one)
	}
	if !remember || len(texts) == 0 {
		s.lost = true // what was read is not there to be compared
		return
	}
	for _, t := range texts {
		if s.size+len(t) > maxTexts {
			s.lost = true
			continue
		}
		s.size += len(t)
		s.now.texts = append(s.now.texts[:len(s.now.texts):len(s.now.texts)], shown{tool, strings.Clone(t)})
	}
}

// state returns what the session has read; with fresh, at all nodes.
func (s *Session) state(ctx context.Context, fresh bool) state {
	if s == nil {
		return state{}
	}
	s.mu.Lock()
	idle := s.reading == nil && !s.unread && !(s.shared && fresh)
	s.mu.Unlock()
	if idle {
		return state{}
	}
	s.lock()
	defer s.mu.Unlock()
	if s.unread || s.shared && fresh {
		ctx, cancel := context.WithTimeout(ctx, storeTime)
		defer cancel()
		doc, err := s.docs.Get(ctx, s.key())
		if err != nil {
			out := s.now
			out.Label = out.Label.Join(Label{Untrusted: true, Sources: []string{"the label of this session, which cannot be read from the store"}})
			return out
		}
		s.take(doc)
	}
	return s.now
}

// take adds the document to what the session has read, and reports whether a person has cleared the label since it was
// read: what the session had read before is forgotten. The caller holds mu.
func (s *Session) take(doc store.Doc) (cleared bool) {
	s.unread = false
	var d document
	switch {
	case doc.Rev == 0:
		return false
	case json.Unmarshal(doc.Value, &d) != nil || d.V != 1:
		d = document{Label: unknown}
	}
	if cleared = d.Epoch > s.epoch; cleared {
		s.epoch, *s.reading = d.Epoch, reading{rows: s.rows, told: s.told}
	}
	s.kept = d
	if !d.Label.within(s.now.Label) {
		s.lost = true // its texts are elsewhere
	}
	s.now.Label = d.Label.Join(s.now.Label)
	have := map[string]bool{}
	for _, one := range s.now.Read {
		have[one.Tool] = true
	}
	for _, one := range d.Read {
		if !have[one.Tool] && len(s.now.Read) < maxSources {
			s.now.Read = append(s.now.Read[:len(s.now.Read):len(s.now.Read)], one)
		}
	}
	return cleared
}

// keep writes the label if it has changed. A label that the store does not take is written with the next one. l and
// texts are what the session reads now: they count where all that it had read before was cleared. The caller holds mu.
func (s *Session) keep(ctx context.Context, l Label, texts []string) {
	if !s.unread && s.now.Label.within(s.kept.Label) && len(s.now.Read) == len(s.kept.Read) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	_, err := store.Change(ctx, s.docs, s.key(), func(doc store.Doc) ([]byte, time.Duration, error) {
		if s.take(doc) {
			s.add(l, texts, true)
		}
		s.kept = document{1, s.epoch, s.now.Label, s.now.Read}
		s.kept.Label.Sources = nil // Read has them
		value, err := s.kept.encode()
		return value, keepFor, err
	})
	if err != nil {
		s.kept, s.unread = document{}, true
	}
}

// hasNot reports whether a value stands in no untrusted text of the session. It is false where the texts are not all
// there.
func (s *Session) hasNot(value string) bool {
	if s == nil {
		return true
	}
	s.lock()
	defer s.mu.Unlock()
	if s.lost {
		return false
	}
	for _, t := range s.now.texts {
		if stands(t.text, value) {
			return false
		}
	}
	return true
}

// Label returns the label of the session.
func (s *Session) Label(ctx context.Context) Label { return s.state(ctx, true).Label }

// Keeps says that rows with a label stay behind a URL or a handle of the session, which other servers fetch.
func (s *Session) Keeps(l Label) {
	if s == nil {
		return
	}
	s.lock()
	defer s.mu.Unlock()
	s.rows = s.rows.Join(l)
}

// Rows returns the label of all rows that stay behind URLs of the session. Rows that it does not know are untrusted, and no
// sink may send them out.
func (s *Session) Rows() Label {
	if s == nil {
		return Label{}
	}
	s.lock()
	defer s.mu.Unlock()
	if s.rows.Zero() {
		return Label{Untrusted: true, Confidentiality: []string{allNames}, Sources: []string{"rows of another session"}}
	}
	return s.rows
}

// maxTold bounds the tools about which one session logs.
const maxTold = 256

// first reports whether a tool was not told of before.
func (s *Session) first(tool string) bool {
	if s == nil {
		return false
	}
	s.lock()
	defer s.mu.Unlock()
	if s.told[tool] || len(s.told) >= maxTold {
		return false
	}
	if s.told == nil {
		s.told = map[string]bool{}
	}
	s.told[tool] = true
	return true
}

// Seen returns the label of the session as this node knows it.
func (s *Session) Seen() Label { return s.state(context.Background(), false).Label }

// Sources returns the label of the session, and the texts that gave it.
func (s *Session) Sources(ctx context.Context) (Label, []Source) {
	now := s.state(ctx, true)
	return now.Label, now.Read
}

// Principal reports whether the session stands for all requests of a principal.
func (s *Session) Principal() bool { return s.kind == principalKind }

// principalKind is the kind of sessions that stand for a principal.
const principalKind = "principal"

// Clear forgets what a session has read, at all nodes: a person has said that it is fine.
func (s *Session) Clear(ctx context.Context) error {
	s.lock()
	defer s.mu.Unlock()
	epoch := 0
	if _, err := store.Change(ctx, s.docs, s.key(), func(doc store.Doc) ([]byte, time.Duration, error) {
		var d document
		_ = json.Unmarshal(doc.Value, &d) // one that cannot be read is replaced
		epoch = max(d.Epoch, s.epoch) + 1
		value, err := document{V: 1, Epoch: epoch}.encode()
		return value, keepFor, err
	}); err != nil {
		return err
	}
	s.reading, s.unread, s.epoch = &reading{rows: s.rows}, false, epoch // the rows have not been read
	return nil
}
