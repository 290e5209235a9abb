package dataplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// remoteResults returns how the results of other nodes are reached.
func remoteResults(s *nodestore.Store, log *slog.Logger) *artifact.Nodes {
	node := s.Node()
	return &artifact.Nodes{
		Inc:  node.Inc,
		Rows: func(inc, token string) artifact.Source { return &remoteRows{node, inc, token} },
		Fetch: func(ctx context.Context, inc, principal, place, handle string) (string, io.ReadCloser, error) {
			return fetchResult(ctx, node, inc, principal, place, handle)
		},
		Failed: func(handle string, err error) {
			log.Warn("a result has no copy in the store, and ends with this node", "handle", handle, "err", err)
		},
		Backup: s.Blobs(),
	}
}

// peerArtifacts is the path at which nodes give each other results; a handle follows it. The profile is in the query.
const peerArtifacts = "/peer/v1/artifact/"

// headResult is the header that describes a result.
const headResult = "Weir-Artifact"

// fetchResult asks the node of a result for it.
func fetchResult(ctx context.Context, node *cluster.Node, inc, principal, place, handle string) (head string, body io.ReadCloser, err error) {
	owner, err := cluster.Owner(ctx, node, inc)
	switch {
	case errors.Is(err, cluster.ErrGone) || err == nil && owner == node.Inc():
		return "", nil, artifact.ErrNodeGone
	case err != nil:
		return "", nil, fmt.Errorf("the store of this gateway cannot be asked where the result is: %w", err)
	}
	r, err := http.NewRequestWithContext(identity.With(ctx, &identity.Identity{Principal: principal}), http.MethodGet, "http://node"+peerArtifacts+url.PathEscape(handle)+"?place="+url.QueryEscape(place), nil)
	if err != nil {
		return "", nil, err
	}
	resp, err := cluster.Send(node, owner, r)
	if err != nil {
		if node.Suspect(ctx, owner) {
			return "", nil, artifact.ErrNodeGone
		}
		return "", nil, fmt.Errorf("the node of the result does not answer: %w", err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(resp.Header.Get(headResult))
	if resp.StatusCode == http.StatusOK && err == nil && len(raw) > 0 {
		return string(raw), resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }() // all of a refusal is read
	why, _ := io.ReadAll(io.LimitReader(resp.Body, peerlink.MaxRefusal))
	if resp.StatusCode == http.StatusNotFound {
		if text := rawjson.Text(rawjson.Get(why, "error")); text != "" {
			return "", nil, &artifact.Error{Kind: artifact.ErrUnknown, Handle: handle, Detail: text}
		}
	}
	return "", nil, fmt.Errorf("the node of the result answered with status %d", resp.StatusCode)
}

// lend serves peerArtifacts: it gives a result of a principal to another node.
func (k *Kept) lend(w http.ResponseWriter, r *http.Request, id *identity.Identity) {
	handle := strings.TrimPrefix(r.URL.Path, peerArtifacts)
	head, lease, err := k.store.Lend(r.Context(), id.Principal, r.URL.Query().Get("place"), handle)
	var unknown *artifact.Error
	switch {
	case errors.As(err, &unknown):
		httpserver.WriteJSON(w, http.StatusNotFound, map[string]string{"error": unknown.Error()})
		return
	case err != nil:
		k.log.Warn("a kept result cannot be read", "err", err)
		httpserver.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "the artifact store cannot be read now"})
		return
	}
	defer lease.Close()
	w.Header().Set(headResult, base64.RawURLEncoding.EncodeToString([]byte(head)))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(lease.SizeBytes, 10))
	_, _ = io.Copy(w, lease.Reader()) // the other node may have gone
}

// remoteStall is how long another node may take for the first byte of rows.
const remoteStall = time.Minute

// remoteRows is a table behind a token of another node.
type remoteRows struct {
	node       *cluster.Node
	inc, token string
}

// Open implements artifact.Source. The node spends the token with the first byte of its answer.
func (d *remoteRows) Open(ctx context.Context, sel table.Selection, strict bool) (artifact.Rows, error) {
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
	stall := time.AfterFunc(remoteStall, func() {
		cancel(fmt.Errorf("%w: the node of the rows sent nothing for %s", plane.ErrFetch, remoteStall))
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
	rows := &remoteAnswer{in: bufio.NewReader(resp.Body), body: resp.Body, end: func() { cancel(nil) }}
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

// refusedRows returns the error of a node that gives no rows.
func refusedRows(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, peerlink.MaxRefusal)) // it is only told
	why := rawjson.Text(rawjson.Get(raw, "error"))
	switch resp.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %s", artifact.ErrToken, why)
	case http.StatusBadRequest, http.StatusConflict:
		return &plane.RequestError{Reason: why}
	}
	return fmt.Errorf("%w: the node of the rows answered with status %d: %s", plane.ErrFetch, resp.StatusCode, why)
}

// remoteAnswer is the body of a response of another node.
type remoteAnswer struct {
	in   *bufio.Reader
	body io.Closer
	end  func()
}

// Read implements io.Reader.
func (d *remoteAnswer) Read(p []byte) (int, error) { return d.in.Read(p) }

// Close implements io.Closer.
func (d *remoteAnswer) Close() error {
	err := d.body.Close()
	d.end()
	return err
}
