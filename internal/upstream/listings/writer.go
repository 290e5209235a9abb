package listings

import (
	"bytes"
	"compress/gzip"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// docWriter writes documents in the background, compressed: the newest value of each key. What is written
// may be lost with the process; it is for documents that are made again.
type docWriter struct {
	docs  store.Docs
	log   *slog.Logger
	wake  chan struct{}
	large func() // called for each document that is too large

	mu      sync.Mutex // guards below
	pending map[string]draft
	written map[string]*store.Sole
}

type draft struct {
	value []byte
	ttl   time.Duration
	label string // see zip
}

const (
	writeTimeout = 5 * time.Second  // of one write
	writeRetry   = 30 * time.Second // after a failure
)

func newWriter(docs store.Docs, log *slog.Logger) *docWriter {
	return &docWriter{docs: docs, log: log, large: func() {}, wake: make(chan struct{}, 1), pending: map[string]draft{}, written: map[string]*store.Sole{}}
}

// write writes a document later. It keeps the value.
func (p *docWriter) write(key string, value []byte, ttl time.Duration) {
	p.draft(key, draft{value: value, ttl: ttl})
}

func (p *docWriter) draft(key string, d draft) {
	p.mu.Lock()
	p.pending[key] = d
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// drop forgets what is still to be written of a document.
func (p *docWriter) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, key)
}

// run writes until ctx ends, and then once more.
func (p *docWriter) run(ctx context.Context) {
	for {
		retry := time.NewTimer(writeRetry)
		select {
		case <-p.wake:
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			p.flush()
			return
		}
		retry.Stop()
		p.flush()
	}
}

// maxFailures is the number of failures in a row after which the store counts as away: a document that
// cannot be written does not delay the others, and a store that is away is not asked for all of them.
const maxFailures = 2

// flush writes what is pending. What fails stays.
func (p *docWriter) flush() {
	p.mu.Lock()
	todo := p.pending
	p.pending = map[string]draft{}
	p.mu.Unlock()
	failures := 0
	for key, d := range todo {
		if failures < maxFailures {
			err := p.put(key, d)
			if err == nil {
				failures = 0
				continue
			}
			failures++
			p.log.Warn("the store did not keep what a server lists; weir tries again", "key", key, "err", err)
		}
		p.mu.Lock()
		if _, newer := p.pending[key]; !newer {
			p.pending[key] = d
		}
		p.mu.Unlock()
	}
}

// put writes a document.
func (p *docWriter) put(key string, d draft) error {
	p.mu.Lock()
	sole := p.written[key]
	if sole == nil {
		sole = store.NewSole(p.docs, key, 0)
		p.written[key] = sole
	}
	p.mu.Unlock()
	value, err := zip(d.value, d.label)
	if err != nil {
		return err
	}
	if len(value) > store.MaxValue {
		p.log.Debug("a document is too large to be kept", "key", key, "bytes", len(value))
		p.large()
		return nil
	}
	bounded, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return sole.Write(bounded, value, d.ttl)
}

// zip compresses a document. The label stands in front, where labelOf finds it without the rest.
func zip(data []byte, label string) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Comment = label
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// labelOf returns the label of a compressed document, "" if there is none.
func labelOf(data []byte) string {
	r, err := gzip.NewReader(bytes.NewReader(data)) // reads only the header
	if err != nil {
		return ""
	}
	return r.Comment
}
