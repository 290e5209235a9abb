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
	result := &KeptResult{Lease: lease, Data: lease.Bytes()}
	if c := e.config.Load(); !c.Artifacts.Redact && !e.opts.RedactResults {
		return result, nil
	}
	redactor := e.redact.Load()
	var clean []byte
	switch {
	case strings.Contains(result.MediaType, "json"), rawjson.Valid(result.Data) == nil:
		clean = redactor.Results(result.Data) // escapes in strings are read as what they stand for
	case utf8.Valid(result.Data):
		clean = []byte(redactor.Text(string(result.Data)))
	default:
		return result, nil // binary
	}
	if !bytes.Equal(clean, result.Data) {
		result.Data, result.Redacted = clean, true
	}
	return result, nil
}
