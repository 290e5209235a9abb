package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// maxCarried bounds the rows that are added to a call, in bytes of JSON. They are quoted once or
// twice in transit, and a hub accepts messages of 16 MB.
const maxCarried = 8 << 20

// carry puts the rows behind a resource_url of this gateway into
// a call of a consumer tool whose server cannot fetch them: one on another machine,
// where the URL leads to its own loopback. It spends the URL.
//
//	{"abstract_data": "[{\"_row_id\":3}]", "resource_url": "http://127.0.0.1:8088/s2sp/data/…"}
//	   ─▶ {"abstract_data": "[{\"_row_id\":3}]", "body_data": "[{\"_row_id\":3,\"text\":…}]"}
//
// The model reads none of them, as with a ddi:// handle.
func (t *Tables) carry(ctx context.Context, c *dispatch.Call) error {
	args, err := t.carried(ctx, c)
	if err == nil {
		c.Args = args
	}
	return err
}

// carried returns the arguments of a call for its server.
func (t *Tables) carried(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	if !rawjson.Contains(c.Args, plane.ParamURL) {
		return c.Args, nil
	}
	token, own := ownToken(t.base, strings.TrimSpace(rawjson.Text(rawjson.Get(c.Args, plane.ParamURL))))
	if !own || t.opts.Fetches(c.Entry.Upstream) || rawjson.GetPath(c.Entry.InputSchema, "properties", plane.ParamBody) == nil {
		return c.Args, nil
	}
	ids, err := plane.AbstractIDs(rawjson.Text(rawjson.Get(c.Args, plane.ParamAbstract)))
	if err != nil || len(ids) == 0 {
		return c.Args, nil // the tool reports the fault, or fetches nothing
	}
	const path = "args." + plane.ParamURL
	sel := table.Selection{RowIDs: ids}
	rows, err := claimRows(ctx, t.Store, token, sel, true)
	if err != nil {
		return nil, sourceError(ctx, c, path, err)
	}
	args, err := putBody(ctx, c.Args, sel.Select(rows.rows))
	rows.end(err == nil)
	if err != nil {
		return nil, sourceError(ctx, c, path, err)
	}
	return args, nil
}

// bodyText is the shape of body_data.
var bodyText = shape{kind: asObjects, text: true}

// putBody replaces resource_url by body_data.
func putBody(ctx context.Context, args []byte, rows table.View) (json.RawMessage, error) {
	size, most := rows.JSONSize(), min(maxCarried, maxBytes(ctx))
	if size > most {
		return nil, &plane.RequestError{Reason: fmt.Sprintf("the server of this tool cannot fetch from this gateway, so the rows go with the call, and they have %d bytes where a call may have %d: "+
			"choose fewer rows, or have the operator set public_url to an address that the server reaches", size, most)}
	}
	quoted, err := bodyText.size(ctx, rows, size)
	if err != nil {
		return nil, err
	}
	made := quoted + int64(len(args))
	if err := memory.Reserve(ctx, (1+copies)*made+memory.Free); err != nil {
		return nil, err
	}
	if err := memory.Take(ctx, 2*made); err != nil { // the text, and the arguments with it
		return nil, err
	}
	defer memory.Give(ctx, made)
	out, err := rawjson.Delete(args, plane.ParamURL)
	if err != nil {
		return nil, err
	}
	return rawjson.Set(out, plane.ParamBody, bodyText.append(make([]byte, 0, quoted), rows, nil))
}
