package plane

import (
	"context"
	"io"

	"github.com/weir-mcp/weir/s2sp/table"
)

// NewAnswer reads an answer from body, with rows of up to most bytes.
func NewAnswer(ctx context.Context, body io.ReadCloser, sel table.Selection, most int) *Answer {
	a := ReadAnswer(ctx, body, "server", sel)
	a.row = most
	return a
}
