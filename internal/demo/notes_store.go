package demo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxNotes     = 1000
	maxNoteTitle = 120    // characters
	maxNoteText  = 20_000 // characters
	maxNoteTags  = 8
	maxNoteTag   = 32 // characters
)

var (
	errNoNote    = errors.New("no such note")
	errNotesFull = errors.New("the notebook is full")
)

// note is one note as the tools return it.
type note struct {
	ID      string   `json:"id" jsonschema:"identifier of the note, such as n1"`
	Title   string   `json:"title"`
	Text    string   `json:"text"`
	Tags    []string `json:"tags"`
	Created string   `json:"created" jsonschema:"time of creation, RFC 3339"`
}

// notebook keeps at most maxNotes notes in the order they were written.
// It is safe for concurrent use.
type notebook struct {
	now func() time.Time

	mu    sync.Mutex // guards below
	next  int
	notes []note
}

func newNotebook(now func() time.Time) *notebook { return &notebook{now: now, next: 1} }

func (b *notebook) create(title, text string, tags []string) (note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.notes) >= maxNotes {
		return note{}, fmt.Errorf("%w: it holds %d notes; delete one with delete_note first", errNotesFull, maxNotes)
	}
	n := note{
		ID:      "n" + strconv.Itoa(b.next),
		Title:   strings.TrimSpace(title),
		Text:    text,
		Tags:    cleanTags(tags),
		Created: b.now().UTC().Format(time.RFC3339),
	}
	b.next++
	b.notes = append(b.notes, n)
	return n, nil
}

// cleanTags gives tags in lower case, sorted, each once; never nil.
func cleanTags(tags []string) []string {
	out := make([]string, 0, len(tags))
	for _, t := range tags {
		if t = strings.ToLower(strings.TrimSpace(t)); t != "" {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (b *notebook) read(id string) (note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(id)
	if i < 0 {
		return note{}, b.missing(id)
	}
	return b.notes[i], nil
}

func (b *notebook) remove(id string) (note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(id)
	if i < 0 {
		return note{}, b.missing(id)
	}
	n := b.notes[i]
	b.notes = slices.Delete(b.notes, i, i+1)
	return n, nil
}

// find and missing are called with mu held.
func (b *notebook) find(id string) int {
	return slices.IndexFunc(b.notes, func(n note) bool { return n.ID == id })
}

func (b *notebook) missing(id string) error {
	return fmt.Errorf("%w: %q; list_notes gives the ids of the %d notes there are", errNoNote, id, len(b.notes))
}

// list gives the newest notes first: those with the tag, or all for "".
func (b *notebook) list(tag string, limit int) []note {
	tag = strings.ToLower(strings.TrimSpace(tag))
	return b.newest(limit, func(n note) bool { return tag == "" || slices.Contains(n.Tags, tag) })
}

// search gives the newest notes whose title, text or tags hold every word of query.
func (b *notebook) search(query string, limit int) []note {
	words := strings.Fields(strings.ToLower(query))
	return b.newest(limit, func(n note) bool {
		haystack := strings.ToLower(n.Title + "\n" + n.Text + "\n" + strings.Join(n.Tags, " "))
		for _, w := range words {
			if !strings.Contains(haystack, w) {
				return false
			}
		}
		return len(words) > 0
	})
}

func (b *notebook) newest(limit int, keep func(note) bool) []note {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := []note{}
	for _, n := range slices.Backward(b.notes) {
		if len(found) == limit {
			break
		}
		if keep(n) {
			found = append(found, n)
		}
	}
	return found
}
