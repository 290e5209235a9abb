package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// nodes returns how the results of other nodes are reached, nil if the gateway is one node.
func (s *Store) nodes() *artifact.Nodes {
	node := s.Cluster()
	if node == nil {
		return nil
	}
	return &artifact.Nodes{
		Inc:  node.Inc,
		Rows: func(inc, token string) artifact.Source { return &distantRows{node, inc, token} },
	}
}

// distantStall is how long another node may take for the first byte of rows.
const distantStall = time.Minute

// distantRows is a table behind a token of another node.
type distantRows struct {
	node       *cluster.Node
	inc, token string
}

// Open implements artifact.Source. The node spends the token with the first byte of its answer.
func (d *distantRows) Open(ctx context.Context, sel table.Selection, strict bool) (artifact.Rows, error) {
	owner, err := cluster.Owner(ctx, d.node, d.inc)
	switch {
	case errors.Is(err, cluster.ErrGone) || err == nil && owner == d.node.Inc():
		return nil, fmt.Errorf("%w: %w", artifact.ErrToken, whyGone(err))
	case err != nil:
		return nil, fmt.Errorf("%w: the store of this gateway cannot be asked where the rows are: %w", plane.ErrFetch, err)
	}
	body, err := json.Marshal(struct {
		RowIDs  []int    `json:"row_ids,omitempty"`
		Columns []string `json:"columns,omitempty"`
	}{sel.RowIDs, sel.Columns})
	if err != nil {
		return nil, err
	}
	asked, cancel := context.WithCancelCause(ctx)
	stall := time.AfterFunc(distantStall, func() {
		cancel(fmt.Errorf("%w: the node of the rows sent nothing for %s", plane.ErrFetch, distantStall))
	})
	defer stall.Stop()
	r, err := http.NewRequestWithContext(asked, http.MethodPost, "http://node"+plane.Path+d.token, bytes.NewReader(body))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r.Header.Set("Content-Type", plane.TypeJSON)
	r.Header.Set("Accept", plane.TypeJSON)
	if strict {
		r.Header.Set("Prefer", "handling=strict")
	}
	resp, err := cluster.Send(d.node, owner, r)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("%w: the node of the rows does not answer: %w", plane.ErrFetch, err)
	}
	rows := &distantAnswer{in: bufio.NewReader(resp.Body), body: resp.Body, end: func() { cancel(nil) }}
	if err := refusedRows(resp); err != nil {
		_ = rows.Close()
		return nil, err
	}
	if _, err := rows.in.Peek(1); err != nil {
		_ = rows.Close()
		return nil, fmt.Errorf("%w: the node of the rows ended: %w", plane.ErrFetch, err)
	}
	return plane.ReadAnswer(ctx, rows, "the node of the rows", sel), nil
}

// whyGone returns why rows are gone.
func whyGone(err error) error {
	if err != nil {
		return err
	}
	return errors.New("the URL was used, or is too old")
}

// maxRefusal bounds what is read of another node's refusal.
const maxRefusal = 16 << 10

// refusedRows returns the error of a node that gives no rows.
func refusedRows(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // it is only told
	why := rawjson.Text(rawjson.Get(raw, "error"))
	switch resp.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %s", artifact.ErrToken, why)
	case http.StatusBadRequest, http.StatusConflict:
		return &plane.RequestError{Reason: why}
	}
	return fmt.Errorf("%w: the node of the rows answered with status %d: %s", plane.ErrFetch, resp.StatusCode, why)
}

// distantAnswer is the body of a response of another node.
type distantAnswer struct {
	in   *bufio.Reader
	body io.Closer
	end  func()
}

// Read implements io.Reader.
func (d *distantAnswer) Read(p []byte) (int, error) { return d.in.Read(p) }

// Close implements io.Closer.
func (d *distantAnswer) Close() error {
	err := d.body.Close()
	d.end()
	return err
}
