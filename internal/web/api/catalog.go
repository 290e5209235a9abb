package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// kinds are the values of kind.
var kinds = map[string]primitive.Kind{"": primitive.KindTool, "tool": primitive.KindTool, "resource": primitive.KindResource, "prompt": primitive.KindPrompt}

// card is a card of the list of a path or of hits.
type card struct {
	ID          string   `json:"id"` // of a folder: its path
	Folder      bool     `json:"folder"`
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`
	Namespace   string   `json:"namespace"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	SideEffects bool     `json:"side_effects"`
	Safety      string   `json:"safety"`
	Score       float64  `json:"score,omitempty"`
	Tokens      int      `json:"tokens"`
}

// cardsAnswer is the answer of catalog.
type cardsAnswer struct {
	Path  string `json:"path,omitempty"`
	Query string `json:"query,omitempty"`
	Cards []card `json:"cards"`
	Page  page   `json:"page"`
}

// catalog serves catalog: the cards at a path, or those that fit a query as agents get them.
func (a *API) catalog(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	kind, known := kinds[query.Get("kind")]
	if !known {
		return mcp.Errorf(mcp.KindInvalidParams, "kind must be tool, resource or prompt, not %q", clip(query.Get("kind"), 40))
	}
	text, most := strings.TrimSpace(query.Get("query")), maxLimit
	if text != "" {
		most = maxHits
	}
	p, err := pageOf(r, most)
	if err != nil {
		return err
	}
	if len(text) > maxQuery {
		return mcp.Errorf(mcp.KindInvalidParams, "query has %d bytes; at most %d", len(text), maxQuery)
	}
	var cards []catalog.Card
	path := "/"
	if text != "" {
		p.Offset = min(p.Offset, maxHits)
		cards, path = a.o.Look.Catalog.Search(r.Context(), kind, text, maxHits), ""
	} else {
		if given := query.Get("path"); given != "" {
			path = given
		}
		if cards, err = a.o.Look.Catalog.Children(r.Context(), kind, path); err != nil {
			return mcp.Errorf(mcp.KindNotFound, "%s", err.Error())
		}
	}
	shown := cut(cards, &p)
	out := make([]card, len(shown))
	for i := range shown {
		s := &shown[i]
		out[i] = card{s.ID, s.Kind == primitive.KindInternal, s.Name, string(s.Kind), s.Namespace, s.Description, s.Tags, s.SideEffects, s.Safety, s.Score, s.Tokens}
	}
	return write(w, cardsAnswer{path, text, out, p})
}

// document is a piece of JSON for people.
type document struct {
	Text string `json:"text"`
	Cut  bool   `json:"cut,omitempty"` // Text is the beginning
}

// show indents JSON without interpreting its numbers. It does not indent large or deep values,
// because that would multiply their size. Invisible characters are escaped.
func show(raw json.RawMessage) *document {
	if raw == nil {
		return nil
	}
	raw = visible.JSON(raw)
	if len(raw) <= maxDefinition && !deep(raw) {
		var out bytes.Buffer
		if json.Indent(&out, raw, "", "  ") == nil && out.Len() <= 4*maxDefinition {
			return &document{Text: out.String()}
		}
	}
	return &document{Text: clip(strings.ToValidUTF8(string(raw[:min(len(raw), maxDefinition)]), ""), maxDefinition), Cut: len(raw) > maxDefinition}
}

// deep reports whether brackets may nest too deeply. It also counts brackets in strings.
func deep(raw []byte) bool {
	n := 0
	for _, b := range raw {
		switch b {
		case '{', '[':
			if n++; n > maxIndentDepth {
				return true
			}
		case '}', ']':
			n--
		}
	}
	return false
}

// entryAnswer is the answer of catalog/entry.
type entryAnswer struct {
	ID           string    `json:"id"`
	Path         string    `json:"path"`
	Kind         string    `json:"kind"`
	Upstream     string    `json:"upstream"`
	Namespace    string    `json:"namespace"`
	RawName      string    `json:"raw_name"`
	Title        string    `json:"title,omitempty"`
	URI          string    `json:"uri,omitempty"`
	Version      string    `json:"version,omitempty"`
	Description  string    `json:"description"`
	Cut          bool      `json:"description_cut,omitempty"`
	Tags         []string  `json:"tags"`
	ReadOnly     bool      `json:"read_only,omitempty"`
	Destructive  bool      `json:"destructive,omitempty"`
	Card         string    `json:"card"`
	Tokens       int       `json:"tokens"` // of the card
	SchemaError  string    `json:"schema_error,omitempty"`
	Annotations  *document `json:"annotations"`
	InputSchema  *document `json:"input_schema"`
	OutputSchema *document `json:"output_schema"`
	Arguments    *document `json:"arguments"` // of a prompt
}

// entryOf returns the entry that a request names by id.
func (a *API) entryOf(r *http.Request) (e *catalog.Entry, path string, err error) {
	id := r.URL.Query().Get("id")
	e, path, ok := a.o.Look.Catalog.Entry(r.Context(), id)
	if !ok {
		return nil, "", mcp.Errorf(mcp.KindNotFound, "%q is not in the catalog; it may have changed: search for it again", clip(id, 200))
	}
	return e, path, nil
}

// entry serves catalog/entry.
func (a *API) entry(w http.ResponseWriter, r *http.Request) error {
	e, path, err := a.entryOf(r)
	if err != nil {
		return err
	}
	out := entryAnswer{
		ID: e.ID, Path: path, Kind: string(e.Kind), Upstream: e.Upstream, Namespace: e.Namespace, RawName: e.RawName,
		Title: clip(visible.Text(e.Title), maxQuery), URI: clip(e.URI, maxQuery), Version: e.Version,
		Description: clip(visible.Text(e.Description), maxDescription), Cut: len(e.Description) > maxDescription,
		Tags: append([]string{}, e.Tags...), ReadOnly: e.ReadOnly, Destructive: e.Destructive, Card: e.Card.Render(), Tokens: e.Card.Tokens,
		Annotations: show(e.Annotations), InputSchema: show(e.InputSchema), OutputSchema: show(e.OutputSchema),
	}
	if e.Kind == primitive.KindPrompt {
		out.Arguments = show(rawjson.Get(e.Raw, "arguments"))
	}
	if err := e.SchemaError(); err != nil {
		out.SchemaError = clip(err.Error(), maxError)
	}
	return write(w, out)
}

// whyAnswer is the answer of catalog/why.
type whyAnswer struct {
	// Rank counts from 1 among all entries that fit the query; 0: the entry does not fit.
	Rank  int       `json:"rank"`
	Score float64   `json:"score"`
	Words []whyWord `json:"words"`
	// Cosine is the cosine of the embeddings of the query and the entry, from -1 to 1. It is absent
	// without search.embedding.
	Cosine *float64 `json:"cosine,omitempty"`
	// Learned is the tool's share of the runs after searches with these words, from 0 to 1, of callers with
	// the groups of this one.
	Learned float64 `json:"learned,omitempty"`
}

// whyWord is the part of one word of the query in a score.
type whyWord struct {
	Word string `json:"word"`
	// Through is the term of the entry that the word met: itself, its stem or a related word.
	Through string `json:"through,omitempty"`
	// Share is the part of the best entry's lexical score, from 0 to 1.
	Share float64 `json:"share"`
	// Match is the relation of Through to the word: the same word, another form of it, a synonym, or a word
	// related to it.
	Match search.Match `json:"match,omitempty"`
	// Fields says where the entry has it; their shares add up to Share.
	Fields []whyField `json:"fields,omitempty"`
}

// whyField is the part of one field of an entry in the score of a word.
type whyField struct {
	Field  string  `json:"field"`
	Weight float64 `json:"weight"` // of one occurrence; 1 in the description
	Share  float64 `json:"share"`
}

// why serves catalog/why: why an entry has its rank for a query.
func (a *API) why(w http.ResponseWriter, r *http.Request) error {
	e, _, err := a.entryOf(r)
	if err != nil {
		return err
	}
	query := strings.TrimSpace(r.URL.Query().Get("query"))
	if query == "" || len(query) > maxQuery {
		return mcp.Errorf(mcp.KindInvalidParams, "query must have 1 to %d bytes", maxQuery)
	}
	x := a.o.Look.Catalog.Why(r.Context(), query, e)
	out := whyAnswer{Rank: x.Rank, Score: x.Score, Words: []whyWord{}, Learned: x.Chosen}
	if x.Embedded {
		out.Cosine = &x.Cosine
	}
	for _, one := range x.Words {
		w := whyWord{Word: clip(one.Word, 100), Through: clip(one.Through, 100), Share: one.Share, Match: one.Match}
		for _, f := range one.Fields {
			w.Fields = append(w.Fields, whyField(f))
		}
		out.Words = append(out.Words, w)
	}
	return write(w, out)
}
