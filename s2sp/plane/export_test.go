package plane

import (
	"context"
	"io"
	"time"

	"github.com/weir-mcp/weir/table"
)

// NewAnswer reads an answer from body, with rows of up to most bytes.
func NewAnswer(ctx context.Context, body io.ReadCloser, sel table.Selection, most int) *Answer {
	return &Answer{body: body, server: "server", ctx: ctx, end: func() {}, idle: time.NewTimer(time.Hour), stall: time.Hour, row: most, sieve: table.NewSieve(sel)}
}
