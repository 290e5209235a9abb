package dataplane

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/table"
)

// A KeptResult is an artifact that is being read. Data is valid until Close.
type KeptResult struct {
	*artifact.Lease
	Data     []byte
	Redacted bool // secrets were replaced, so Data is not what ContentHash describes

	done func() // nil after Close
}

// Close ends the use of Data. It may be called more than once.
func (r *KeptResult) Close() {
	r.Lease.Close()
	if r.done != nil {
		r.done()
		r.done = nil
	}
}

// Kept gives callers the results that were held back for them. It is safe for concurrent use.
type Kept struct {
	store    *artifact.Local
	redactor func() *result.Redactor
	redacts  func() bool // reports whether results have no secrets
	memory   *memory.Pool
	reads    reads
	log      *slog.Logger
}

// maxReads bounds the kept results that a principal reads at once. Each may be a slow download, which
// holds a connection and, if results are redacted, a copy of the result.
const maxReads = 32

// reads counts the kept results that are being read, by principal.
type reads struct {
	mu sync.Mutex // guards of
	of map[string]int
}

// begin counts a read until done is called. The error is of mcp.KindOverloaded.
func (r *reads) begin(principal string) (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[principal] >= maxReads {
		return nil, mcp.Errorf(mcp.KindOverloaded, "%d kept results of yours are being read already; wait until one has been read", maxReads)
	}
	if r.of == nil {
		r.of = map[string]int{}
	}
	r.of[principal]++
	return func() { r.end(principal) }, nil
}

func (r *reads) end(principal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[principal]--; r.of[principal] == 0 {
		delete(r.of, principal)
	}
}

// Open opens a principal's artifact. If results are redacted, texts have no secrets. The
// error is an *artifact.Error if the principal has no such artifact, and of mcp.KindOverloaded if it
// reads too many.
func (k *Kept) Open(ctx context.Context, principal, handle string) (*KeptResult, error) {
	done, err := k.reads.begin(principal)
	if err != nil {
		return nil, err
	}
	lease, err := k.store.Open(ctx, principal, handle)
	if err != nil {
		done()
		return nil, err
	}
	ctx, scope := memory.WithScope(ctx)
	scope.Count(k.memory, "principal ", principal)
	kept := &KeptResult{Lease: lease, done: func() { scope.End(); done() }}
	if kept.Data, err = lease.Bytes(ctx); err != nil {
		kept.Close()
		return nil, mcp.NoRoom("the kept result", err)
	}
	if !k.redacts() {
		return kept, nil
	}
	clean, err := withoutSecrets(ctx, k.redactor(), kept)
	if err != nil {
		kept.Close()
		return nil, mcp.NoRoom("the kept result without secrets", err)
	}
	kept.Redacted = !bytes.Equal(clean, kept.Data)
	kept.Data = clean
	return kept, nil
}

// withoutSecrets returns the bytes of a kept result without secrets, if it is text.
func withoutSecrets(ctx context.Context, redactor *result.Redactor, r *KeptResult) ([]byte, error) {
	make := func(from []byte, write func(io.Writer) error) ([]byte, error) { return memory.Make(ctx, from, write) }
	switch {
	case strings.Contains(r.MediaType, "json"), rawjson.Valid(r.Data) == nil:
		return redactor.LargeResults(r.Data, make) // escapes in strings are read as what they stand for
	case utf8.Valid(r.Data):
		return redactor.LargeText(r.Data, make)
	}
	return r.Data, nil // binary
}

// Shown returns a part of a kept result as the gateway gives it to agents: if results are redacted,
// it has no secrets.
func (k *Kept) Shown(part string) string {
	if !k.redacts() {
		return part
	}
	if rawjson.Valid([]byte(part)) == nil {
		return string(k.redactor().Results([]byte(part)))
	}
	return k.redactor().Text(part)
}

// Table reads the result as a table, without secrets if they were replaced. The table is invalid
// after Close.
func (r *KeptResult) Table(opts table.DetectOptions) (*table.Table, error) {
	if r.Redacted {
		return table.Detect(r.Data, opts)
	}
	return r.Lease.Table(opts)
}
