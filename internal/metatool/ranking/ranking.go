package ranking

import (
	"log/slog"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/store"
)

// Ranking is the work in the background for searches of one gateway. It is safe for concurrent use.
type Ranking struct {
	embeddings *embeddings // nil if entries are ranked by words alone
	indexing   indexing
}

// New returns a Ranking that makes no request before Start. docs keep vectors and may be nil; redact
// removes secrets from messages. The caller closes it.
func New(c *config.Config, docs store.Docs, redact func(string) string, log *slog.Logger) (*Ranking, error) {
	vectors, err := newEmbeddings(c, docs, redact, log)
	if err != nil {
		return nil, err
	}
	return &Ranking{embeddings: vectors}, nil
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

// Start asks for embeddings in the background until Close. Without it there are none.
func (r *Ranking) Start(live *catalog.Live[*metatool.Snapshot]) { r.embeddings.start(live) }

// Close ends the work and waits for it.
func (r *Ranking) Close() {
	r.indexing.close()
	r.embeddings.close()
}
