package ranking

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/search/embedding"
	"github.com/weir-mcp/weir/internal/store"
)

// Timing of embedding requests.
const (
	embedTimeout = time.Minute // timeout of one background request
	// wait this long after the last catalog change, so that several servers are embedded in one
	// request
	embedQuiet   = 500 * time.Millisecond
	embedRetry   = 30 * time.Second // wait after a failure; doubled after each further one
	longestRetry = 10 * time.Minute
)

// embeddings fetches vectors for the catalog's entries from the endpoint that search.embedding
// names. While vectors are missing or the endpoint fails, entries are ranked by words alone. A nil
// *embeddings does nothing.
type embeddings struct {
	options search.Options
	http    *http.Client
	log     *slog.Logger
	redact  func(string) string
	wake    chan struct{} // capacity 1; signals that the catalog changed
	end     context.CancelFunc
	run     sync.WaitGroup
	kept    *embedding.Kept // nil: vectors end with the process
}

// newEmbeddings returns nil if no endpoint is configured. It makes no request.
func newEmbeddings(c *config.Config, docs store.Docs, redact func(string) string, log *slog.Logger) (*embeddings, error) {
	e := c.Search.Embedding
	if e.URL == "" {
		return nil, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	b := &embeddings{log: log, redact: redact, wake: make(chan struct{}, 1), end: func() {}, http: &http.Client{
		Transport: transport,
		// Never follow a redirect: the texts and the key are meant for this endpoint only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	of := embedding.Config{URL: e.URL, Model: e.Model, Key: string(e.Key), Dimensions: e.Dimensions, Timeout: embedTimeout, HTTP: b.http}
	client, err := embedding.New(of)
	if err != nil {
		return nil, err
	}
	b.options = search.Options{Embedder: client, Queries: embedding.NewSteady(client, e.Timeout)}
	if docs != nil {
		b.kept = embedding.NewKept(client, docs, of)
		b.options.Embedder = b.kept
	}
	return b, nil
}

// changed signals that the catalog has changed.
func (b *embeddings) changed() {
	if b == nil {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// start fetches vectors in the background until close is called.
func (b *embeddings) start(live *catalog.Live[*metatool.Snapshot]) {
	if b == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.end = cancel
	b.run.Go(func() { b.follow(ctx, live) })
}

func (b *embeddings) close() {
	if b == nil {
		return
	}
	b.end()
	b.run.Wait()
	b.http.CloseIdleConnections()
}

func (b *embeddings) follow(ctx context.Context, live *catalog.Live[*metatool.Snapshot]) {
	retry := embedRetry
	for b.quiet(ctx) {
		began := time.Now()
		for {
			s := live.Snapshot()
			next, err := s.Embed(ctx)
			if next != s {
				live.Refine(func(now *metatool.Snapshot) *metatool.Snapshot { return now.Adopt(next) })
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				b.log.Warn("entries are ranked by words alone: their texts could not be embedded", "err", b.redact(err.Error()), "retry_in", retry)
				select {
				case <-time.After(retry):
				case <-ctx.Done():
					return
				}
				retry = min(2*retry, longestRetry)
				continue
			}
			retry = embedRetry
			if next == s {
				break // no change in the meantime
			}
		}
		b.flush()
		b.log.Info("entries are ranked by meaning, too", "entries", live.Snapshot().Catalog.Len(), "took", time.Since(began).Round(time.Millisecond))
	}
}

// flush keeps the vectors that are new.
func (b *embeddings) flush() {
	if b.kept == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), embedTimeout)
	defer cancel()
	if err := b.kept.Flush(ctx); err != nil {
		b.log.Warn("the store did not keep all vectors; the next start asks for them again", "err", err)
	}
}

// quiet waits for a change and then until changes stop. It returns false if ctx ends.
func (b *embeddings) quiet(ctx context.Context) bool {
	select {
	case <-b.wake:
	case <-ctx.Done():
		return false
	}
	for {
		select {
		case <-b.wake:
		case <-ctx.Done():
			return false
		case <-time.After(embedQuiet):
			return true
		}
	}
}
