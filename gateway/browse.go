package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/rawjson"
)

var browseKeys = []string{"query", "path", "top_k"}

// browsed is the kind of entry that a meta-tool finds.
func browsed(metaTool string) catalog.Kind {
	switch metaTool {
	case ResourceBrowse:
		return catalog.KindResource
	case PromptBrowse:
		return catalog.KindPrompt
	}
	return catalog.KindTool
}

// browse answers tool_browse (gateway-surface §3), resource_browse and
// prompt_browse (§9.4): cards for a query, by descending score and then by id, or
// the cards at a path.
func (g *Gateway) browse(ctx context.Context, c *metaCall) (json.RawMessage, error) {
	var out [3][]byte
	if err := c.read(c.name, browseKeys, out[:]); err != nil {
		return nil, err
	}
	topK := 0
	if out[2] != nil {
		n, ok := rawjson.Int(out[2])
		if !ok || n < 1 || n > MaxTopK {
			return nil, metaArgs(c.name, "top_k must be a whole number from 1 to %d, not %s", MaxTopK, describeParam(out[2]))
		}
		topK = n
	}
	switch {
	case out[0] != nil && out[1] != nil:
		return nil, metaArgs(c.name, "pass either query or path, not both")
	case out[0] != nil:
		query, err := rawjson.String(out[0])
		if err != nil {
			return nil, metaArgs(c.name, "query must be a string, not %s", describeParam(out[0]))
		}
		if query = strings.TrimSpace(query); query == "" {
			return nil, metaArgs(c.name, "query is empty; say what you look for, or pass path \"/\" to see what there is")
		}
		return g.browseQuery(ctx, c, query, topK), nil
	case out[1] != nil:
		path, err := rawjson.String(out[1])
		if err != nil {
			return nil, metaArgs(c.name, "path must be a string, not %s", describeParam(out[1]))
		}
		return g.browsePath(c, path, topK)
	}
	return nil, metaArgs(c.name, "pass query or path")
}

func (g *Gateway) browseQuery(ctx context.Context, c *metaCall, query string, topK int) json.RawMessage {
	if topK == 0 {
		topK = DefaultTopK
	}
	s := g.opts.Upstreams.Snapshot()
	cards, err := s.Search(ctx, browsed(c.name), query, topK)
	if err != nil {
		g.opts.Logger.DebugContext(ctx, "ranked by words alone", "session", c.state.tag, "err", g.opts.Redactor.Redact(err.Error()))
	}
	return g.cardsResult(c, s.Catalog, cards, true, "No "+string(browsed(c.name))+" matches. Try other words, or path \"/\" to see what there is.")
}

// Search returns the cards of the entries of a kind that match a query, with
// their scores: at most n, by descending score and then by id. It is what the
// browsing meta-tools answer. Templates are among the resources. An error says
// that the ranking is one by words alone because an Embedder failed.
func (s *Snapshot) Search(ctx context.Context, kind catalog.Kind, query string, n int) ([]catalog.Card, error) {
	hits, err := s.index(kind).SearchContext(ctx, query, n)
	cards := make([]catalog.Card, 0, len(hits))
	for _, hit := range hits {
		if e, ok := s.Catalog.Lookup(hit.ID); ok {
			card := e.Card
			card.Score = hit.Score
			cards = append(cards, card)
		}
	}
	return cards, err
}

func (g *Gateway) browsePath(c *metaCall, path string, topK int) (json.RawMessage, error) {
	from := g.opts.Upstreams.Snapshot().Catalog
	cards, err := from.ChildrenOf(browsed(c.name), path)
	if err != nil {
		return nil, catalogError(err)
	}
	if topK > 0 {
		cards = cards[:min(topK, len(cards))]
	}
	return g.cardsResult(c, from, cards, false, "There is nothing here yet."), nil
}

// cardsResult writes cards, one a line, or as a JSON array, and notes that the
// session was offered their tools.
func (g *Gateway) cardsResult(c *metaCall, from *catalog.Catalog, cards []catalog.Card, scored bool, none string) json.RawMessage {
	c.state.offerCards(cards)
	hasScore := func(int) bool { return scored }
	if g.opts.CacheStable {
		stable := c.state.arrange(from, cards, scored)
		cards, hasScore = stable.cards, func(i int) bool { return stable.scored[i] }
	}
	if c.format == FormatJSON {
		doc := []byte{'['}
		for i := range cards {
			if i > 0 {
				doc = append(doc, ',')
			}
			doc = cards[i].AppendJSON(doc, hasScore(i))
		}
		doc = append(doc, ']')
		// structuredContent has to be an object before 2026-07-28.
		return textBlocks(append(append([]byte(`{"cards":`), doc...), '}'), string(doc))
	}
	if len(cards) == 0 {
		return textBlocks(nil, none)
	}
	text := make([]byte, 0, 256*len(cards))
	for i := range cards {
		if i > 0 {
			text = append(text, '\n')
		}
		text = cards[i].AppendRender(text)
	}
	return textBlocks(nil, string(text))
}

// catalogError turns an error of the catalog into the gateway's. The codes are
// the same words.
func catalogError(err error) error {
	var e *catalog.Error
	if !errors.As(err, &e) {
		return err
	}
	return &Error{Code: Code(e.Code), Message: e.Message, Path: e.Path, Cause: e.Err}
}
