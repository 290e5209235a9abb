package ranking

import (
	"context"
	"log/slog"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/search/feedback"
	"github.com/weir-mcp/weir/internal/store"
)

// Ranking is the work in the background for searches of one gateway. It is safe for concurrent use.
type Ranking struct {
	embeddings *embeddings // nil if entries are ranked by words alone
	indexing   indexing
	learned    *feedback.Memory
	learns     bool // at the start
}

// Needs are the things that a Ranking stands on.
type Needs struct {
	// Vectors keep embeddings, nil if they end with the process.
	Vectors store.Docs
	// Docs keep which tools were run after searches, as hashes that are keyed by Secret.
	Docs   store.Docs
	Secret []byte
	// Redact removes secrets from messages.
	Redact func(string) string
	Log    *slog.Logger
}

// New returns a Ranking that makes no request before Start. The caller closes it.
func New(c *config.Config, n Needs) (*Ranking, error) {
	vectors, err := newEmbeddings(c, n.Vectors, n.Redact, n.Log)
	if err != nil {
		return nil, err
	}
	learned := feedback.New(feedback.Options{Docs: n.Docs, Secret: n.Secret, Off: !c.Search.Learn, Log: n.Log})
	return &Ranking{embeddings: vectors, learned: learned, learns: c.Search.Learn}, nil
}

// Key is the key of the part.
var Key = part.Key{Name: "search", Late: "search.embedding", Split: func(c *config.Config) (live, late any) {
	return c.Search.Learn, c.Search.Embedding
}}

// Configure returns a function that puts a reload in force, nil if there is nothing to do.
func (r *Ranking) Configure(of part.Reload) (apply func()) {
	learn := of.Next.Search.Learn
	if learn == of.Now.Search.Learn {
		return nil
	}
	return func() { r.learned.Use(learn) }
}

// Learned returns which tools callers ran after their searches.
func (r *Ranking) Learned() *feedback.Memory { return r.learned }

// Search returns the cards of a snapshot for a query, at most n, as agents of the caller get them.
func (r *Ranking) Search(ctx context.Context, s *metatool.Snapshot, kind primitive.Kind, query string, n int) []catalog.Card {
	// agents see the error; people see the findings
	cards, _, _ := s.Search(ctx, kind, query, r.learned.Search(ctx), n)
	return cards
}

// Why explains the rank of an entry of a snapshot in Search.
func (r *Ranking) Why(ctx context.Context, s *metatool.Snapshot, query string, e *catalog.Entry) search.Explanation {
	return s.Why(ctx, query, r.learned.Search(ctx), e)
}

// Options returns the options of the first snapshot.
func (r *Ranking) Options() search.Options {
	if r.embeddings == nil {
		return search.Options{}
	}
	return r.embeddings.options
}

// Prepare prepares a snapshot for searches, or has it prepared. Each call is about a newer snapshot.
func (r *Ranking) Prepare(s *metatool.Snapshot) { r.indexing.prepare(s) }

// Changed says that the catalog has changed.
func (r *Ranking) Changed() { r.embeddings.changed() }

// Start asks for embeddings in the background until Close. Without it there are none. It also removes what
// was learnt before a configuration without search.learn.
func (r *Ranking) Start(live *catalog.Live[*metatool.Snapshot]) {
	r.embeddings.start(live)
	if !r.learns {
		r.learned.Use(false)
	}
}

// Close ends the work and waits for it. What was learnt is written until ctx ends.
func (r *Ranking) Close(ctx context.Context) {
	r.indexing.close()
	r.embeddings.close()
	r.learned.Close(ctx)
}
