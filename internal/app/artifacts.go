package app

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/rawjson"
)

// A KeptResult is an artifact that is being read. Data is valid until Close.
type KeptResult struct {
	*artifact.Lease
	Data     []byte
	Redacted bool // secrets were replaced, so Data is not what ContentHash describes
}

// OpenArtifact opens a principal's artifact. If results are redacted, texts have no secrets. The
// error is an *artifact.Error if the principal has no such artifact.
func (e *Engine) OpenArtifact(ctx context.Context, principal, handle string) (*KeptResult, error) {
	lease, err := e.Results.Open(ctx, principal, handle)
	if err != nil {
		return nil, err
	}
	kept := &KeptResult{Lease: lease, Data: lease.Bytes()}
	if c := e.config.Load(); !c.Artifacts.Redact && !e.opts.RedactResults {
		return kept, nil
	}
	redactor := e.redact.Load()
	var clean []byte
	switch {
	case strings.Contains(kept.MediaType, "json"), rawjson.Valid(kept.Data) == nil:
		clean = redactor.Results(kept.Data) // escapes in strings are read as what they stand for
	case utf8.Valid(kept.Data):
		clean = []byte(redactor.Text(string(kept.Data)))
	default:
		return kept, nil // binary
	}
	if !bytes.Equal(clean, kept.Data) {
		kept.Data, kept.Redacted = clean, true
	}
	return kept, nil
}
