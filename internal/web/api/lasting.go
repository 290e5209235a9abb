package api

import (
	"context"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// appendEnd appends the last event of a stream whose caller's credential has ended, if it has.
func appendEnd(dst []byte, ctx context.Context) []byte {
	err := context.Cause(ctx)
	if kind, _ := mcp.KindOf(err); err == nil || kind != mcp.KindUnauthorized {
		return dst
	}
	dst = append(dst, "event: end\ndata: "...)
	dst = append(dst, rawjson.NewWriter(nil).Object().Key("message").String(err.Error()).EndObject().Bytes()...)
	return append(dst, "\n\n"...)
}
