package eval

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/weir-mcp/weir/internal/search"
)

// Miss is a query whose first hit is none of the tools that were asked for.
type Miss struct {
	Query string `json:"query"`
	// Want is the wanted tool that ranks highest; Rank is its place, counted from 1. Rank 0 says that no wanted tool was
	// found at all: then Want is the first of the set's file.
	Want string  `json:"want"`
	Rank int     `json:"rank"`
	Got  string  `json:"got"`
	Over float64 `json:"over"` // score of the first hit minus the score of the wanted tool
	// Words has, for each word of the query, its share in both scores.
	Words []MissWord `json:"words"`
}

// MissWord is a word of a query with the terms by which the wanted tool and the first hit meet it.
type MissWord struct {
	Word      string  `json:"word"`
	Want      string  `json:"want,omitempty"`
	WantShare float64 `json:"want_share"`
	Got       string  `json:"got,omitempty"`
	GotShare  float64 `json:"got_share"`
}

// newMiss explains why none of q's tools is the first of hits.
func newMiss(ix *search.Index, q testQuery, hits []search.Hit) Miss {
	m := Miss{Query: q.Text}
	var want search.Explanation
	for _, group := range q.Groups {
		for _, id := range group {
			x := ix.Explain(q.Text, id)
			if m.Want == "" || x.Rank > 0 && (m.Rank == 0 || x.Rank < m.Rank) {
				m.Want, m.Rank, want = id, x.Rank, x
			}
		}
	}
	var got search.Explanation
	if len(hits) > 0 {
		m.Got = hits[0].ID
		got = ix.Explain(q.Text, m.Got)
		m.Over = got.Score - want.Score
	}
	for i, w := range want.Words {
		word := MissWord{Word: w.Word, Want: w.Through, WantShare: w.Share}
		if i < len(got.Words) {
			word.Got, word.GotShare = got.Words[i].Through, got.Words[i].Share
		}
		m.Words = append(m.Words, word)
	}
	return m
}

// WriteMisses prints the misses of every set for people: a line for the query, one for the first hit, and for each word of
// the query its share in the scores of the wanted tool and of the first hit.
func (r Report) WriteMisses(w io.Writer) error {
	var b bytes.Buffer
	for _, row := range r.Rows {
		if len(row.Misses) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %d of %d queries have another tool first\n", row.Set, len(row.Misses), row.Queries)
		for _, m := range row.Misses {
			m.write(&b)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (m Miss) write(b *bytes.Buffer) {
	place := "not found"
	if m.Rank > 0 {
		place = fmt.Sprintf("place %d", m.Rank)
	}
	fmt.Fprintf(b, "\n  %s\n    wanted %s: %s\n", m.Query, m.Want, place)
	if m.Got != "" {
		fmt.Fprintf(b, "    first  %s: ahead by %.2f\n", m.Got, m.Over)
	}
	words := make([]string, 0, len(m.Words))
	for _, w := range m.Words {
		words = append(words, fmt.Sprintf("%s %s ▶ %s", w.Word, met(w.Want, w.WantShare), met(w.Got, w.GotShare)))
	}
	fmt.Fprintf(b, "    words  %s\n", strings.Join(words, " · "))
}

// met prints the term that a word met and how much that added.
func met(term string, share float64) string {
	if term == "" {
		return "–"
	}
	return fmt.Sprintf("%s %.2f", term, share)
}
