package app

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
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
	if !redacts(e) {
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

// redacts reports whether results have no secrets.
func redacts(e *Engine) bool { return e.config.Load().Artifacts.Redact || e.opts.RedactResults }

// Shown returns a part of a kept result as the gateway gives it to agents: if results are redacted,
// it has no secrets.
func Shown(e *Engine, part string) string {
	if !redacts(e) {
		return part
	}
	if rawjson.Valid([]byte(part)) == nil {
		return string(e.redact.Load().Results([]byte(part)))
	}
	return e.redact.Load().Text(part)
}

// Table reads the result as a table, without secrets if they were replaced. The table is invalid
// after Close.
func (r *KeptResult) Table(opts table.DetectOptions) (*table.Table, error) {
	if r.Redacted {
		return table.Detect(r.Data, opts)
	}
	return r.Lease.Table(opts)
}
