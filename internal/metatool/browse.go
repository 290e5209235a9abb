package metatool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/search/feedback"
	"github.com/weir-mcp/weir/internal/text"
)

var browseKeys = []string{"query", "path", "top_k"}

// browsed returns the kind of entries that a meta-tool finds.
func browsed(metaTool string) primitive.Kind {
	switch metaTool {
	case ResourceBrowse:
		return primitive.KindResource
	case PromptBrowse:
		return primitive.KindPrompt
	}
	return primitive.KindTool
}

// browse answers tool_browse (spec/gateway §3), resource_browse and prompt_browse (§6.4). It
// returns the cards for a query, by descending score and then by id, or the cards at a path.
func (g *Gateway) browse(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	var out [3][]byte
	if err := readArguments(c, browseKeys, out[:]); err != nil {
		return nil, err
	}
	topK := 0
	if out[2] != nil {
		n, ok := rawjson.Int(out[2])
		if !ok || n < 1 || n > MaxTopK {
			return nil, metaArgs(c.Verb, "top_k must be a whole number from 1 to %d, not %s", MaxTopK, text.Value(out[2]))
		}
		topK = n
	}
	switch {
	case out[0] != nil && out[1] != nil:
		return nil, metaArgs(c.Verb, "pass either query or path, not both")
	case out[0] != nil:
		query, err := rawjson.String(out[0])
		if err != nil {
			return nil, metaArgs(c.Verb, "query must be a string, not %s", text.Value(out[0]))
		}
		if query = strings.TrimSpace(query); query == "" {
			return nil, metaArgs(c.Verb, "query is empty; say what you look for, or pass path \"/\" to see what there is")
		}
		return g.browseQuery(ctx, c, query, topK), nil
	case out[1] != nil:
		path, err := rawjson.String(out[1])
		if err != nil {
			return nil, metaArgs(c.Verb, "path must be a string, not %s", text.Value(out[1]))
		}
		return g.browsePath(c, path, topK)
	}
	return nil, metaArgs(c.Verb, "pass query or path")
}

func (g *Gateway) browseQuery(ctx context.Context, c *dispatch.Call, query string, topK int) json.RawMessage {
	n := cmp.Or(topK, DefaultTopK)
	s := g.opts.Upstreams.Snapshot()
	learnt := g.opts.Learned.Search(ctx)
	cards, hint, err := s.Search(ctx, browsed(c.Verb), query, learnt, n)
	if err != nil {
		g.opts.Logger.DebugContext(ctx, "ranked by words alone", "session", sessionOf(c).tag, "err", g.opts.Redactor.Redact(err.Error()))
	}
	if hint != "" && topK == 0 {
		cards = cards[:min(len(cards), weakCards)]
	}
	showTools(c, learnt, cards)
	none := cmp.Or(hint, "No "+string(browsed(c.Verb))+" matches") + `. Path "/" shows what there is.`
	return g.cardsResult(c, cardsAnswer{from: s.Catalog, cards: cards, scored: true, hint: hint, none: none, whole: true})
}

// A card is shown if its score is at least closeShare of the best score; most tools below that
// share only a word with the query. If the best card matches less than closeFit of the query,
// scores mean little, and the first weakCards are shown. If it matches less than weakFit, the answer says so; see
// hintOf.
const (
	closeShare = .4
	closeFit   = .4
	weakFit    = .3
	weakCards  = 8
)

// nearest follows the hint that precedes cards. aboveAre follows the hint that comes after them, so that a
// cache may keep them.
const (
	nearest  = "; nearest:"
	aboveAre = "; the cards are the nearest."
)

// closest removes cards far below the best one, and returns a hint if the best match is weak.
func closest(s *Snapshot, kind primitive.Kind, query string, cards []catalog.Card) (shown []catalog.Card, hint string) {
	var upstream, id string
	if len(cards) > 0 {
		if e, ok := s.Catalog.Lookup(cards[0].ID); ok {
			upstream, id = e.Upstream, e.ID
		}
	}
	fit := s.index(kind).Fit(query, upstream, id)
	hint = hintOf(kind, fit)
	if fit.Share < closeFit {
		return cards, hint
	}
	far := slices.IndexFunc(cards, func(c catalog.Card) bool { return c.Score < closeShare*cards[0].Score })
	if far >= 0 {
		cards = cards[:far]
	}
	return cards, hint
}

// Search returns the cards of a kind that match a query, with their scores, as the browse
// meta-tools do: at most n, by descending score and then by id, without cards far below the best.
// The hint says what is wrong with the query if no match is close. Templates belong to the resources.
// Tools are preferred by what was learnt, which may be nil. An error means that an Embedder failed and
// the ranking uses words only.
func (s *Snapshot) Search(ctx context.Context, kind primitive.Kind, query string, learnt *feedback.Search, n int) (cards []catalog.Card, hint string, err error) {
	hits, err := s.index(kind).SearchContext(ctx, query, preference(kind, learnt), n)
	cards = make([]catalog.Card, 0, len(hits))
	for _, hit := range hits {
		if e, ok := s.Catalog.Lookup(hit.ID); ok {
			card := e.Card
			card.Score = hit.Score
			cards = append(cards, card)
		}
	}
	cards, hint = closest(s, kind, query, cards)
	return cards, hint, err
}

// Why explains the rank of an entry among the entries of its kind that fit a query, as Search ranks
// them.
func (s *Snapshot) Why(ctx context.Context, query string, learnt *feedback.Search, e *catalog.Entry) search.Explanation {
	kind := e.Kind
	if kind == primitive.KindTemplate {
		kind = primitive.KindResource
	}
	doc := docOf(e)
	doc.ServerTitle, doc.About = s.Catalog.About(e.Upstream)
	return s.index(kind).ExplainDoc(ctx, query, preference(kind, learnt), doc)
}

func (g *Gateway) browsePath(c *dispatch.Call, path string, topK int) (json.RawMessage, error) {
	from := g.opts.Upstreams.Snapshot().Catalog
	cards, err := from.ChildrenOf(browsed(c.Verb), path)
	if err != nil {
		namespace, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if e := g.outages.absentSpace(func(n string) bool { return n == namespace }); e != nil {
			e.Path = path
			return nil, e
		}
		return nil, catalogError(err)
	}
	if topK > 0 {
		cards = cards[:min(topK, len(cards))]
	}
	if catalog.IsRoot(path) {
		g.outages.markDown(cards)
	}
	answer := cardsAnswer{from: from, cards: cards, none: "There is nothing here yet.", whole: catalog.IsRoot(path)}
	return g.cardsResult(c, answer), nil
}

// cardsAnswer is the outcome of a browse.
type cardsAnswer struct {
	from   *catalog.Catalog
	cards  []catalog.Card
	scored bool
	hint   string // what is wrong with the query; "" if the best card matches it
	none   string // the text without cards
	whole  bool   // all upstreams were searched, so missing ones are reported
}

// cardsResult writes the cards, one per line or as a JSON array, and records their tools as offered
// to the session. The last line lists upstreams that were not searched; it follows the cards, so
// that a cache may keep them.
func (g *Gateway) cardsResult(c *dispatch.Call, a cardsAnswer) json.RawMessage {
	cards := a.cards
	sessionOf(c).offerCards(a.from, cards)
	for i := range cards {
		if e, ok := a.from.Lookup(cards[i].ID); ok {
			c.Label = c.Label.Join(g.opts.Flow.Definition(e))
		}
	}
	hasScore := func(int) bool { return a.scored }
	room := browseOverhead - 1 // 1 for a line break
	if g.opts.CacheStable {
		stable := sessionOf(c).arrange(a.from, cards, a.scored)
		if len(stable.cards) > len(cards) {
			room -= markerTokens
		}
		cards, hasScore = stable.cards, func(i int) bool { return stable.scored[i] }
	}
	rest := ""
	if a.hint != "" && len(cards) > 0 {
		room -= g.opts.Firewall.CountTokens(a.hint + aboveAre)
	}
	if a.whole {
		if rest = g.outages.notSearched(room); rest != "" && len(cards) == 0 {
			// Both texts must fit.
			if a.none, _, _ = strings.Cut(a.none, ". "); a.hint != "" {
				a.none = "No " + string(browsed(c.Verb)) + " matches"
			}
			rest = g.outages.notSearched(room - g.opts.Firewall.CountTokens(a.none))
		}
	}
	if c.Format == result.FormatJSON {
		doc := []byte{'['}
		for i := range cards {
			if i > 0 {
				doc = append(doc, ',')
			}
			doc = cards[i].AppendJSON(doc, hasScore(i))
		}
		doc = append(doc, ']')
		// Before 2026-07-28, structuredContent must be an object.
		structured := append([]byte(`{"cards":`), doc...)
		if a.hint != "" {
			structured = rawjson.AppendString(append(structured, `,"close_match":false,"hint":`...), a.hint)
		}
		if rest == "" {
			return result.Texts(append(structured, '}'), string(doc))
		}
		structured = rawjson.AppendString(append(structured, `,"not_searched":`...), rest)
		return result.Texts(append(structured, '}'), string(doc), rest)
	}
	if len(cards) == 0 {
		if rest != "" {
			a.none += "\n" + rest
		}
		return result.Texts(nil, a.none)
	}
	text := make([]byte, 0, 256*len(cards))
	if a.hint != "" && !g.opts.CacheStable {
		text = append(append(text, a.hint...), nearest...)
	}
	var same map[string][]*catalog.Entry
	if !g.opts.CacheStable && a.scored {
		cards, same = twins(a.from, cards)
	}
	for i := range cards {
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = cards[i].AppendRender(text)
		text = appendTwins(text, a.from, same[cards[i].ID])
	}
	if a.hint != "" && g.opts.CacheStable {
		// Stable cards come first, so that a cache may keep them.
		text = append(append(append(text, '\n'), a.hint...), aboveAre...)
	}
	if rest != "" {
		text = append(append(text, '\n'), rest...)
	}
	return result.Texts(nil, string(text))
}

// catalogError converts an error of the catalog into a result.Error. Their codes are equal.
func catalogError(err error) error {
	var e *catalog.Error
	if !errors.As(err, &e) {
		return err
	}
	return &result.Error{Code: result.Code(e.Code), Message: e.Message, Path: e.Path, Cause: e.Err}
}
