package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/net/egress"
)

// Bounds of documents that clients name.
const (
	maxDocument      = 16 << 10
	maxDocuments     = 1000
	documentTimeout  = 5 * time.Second
	minDocumentAge   = time.Minute
	usualDocumentAge = time.Hour
	maxDocumentAge   = 24 * time.Hour
	fetchesAtOnce    = 4
)

// documents fetches what clients name: their metadata documents and their keys. Only public addresses are asked.
type documents struct {
	*shelf
	tries *tries
	zone  *egress.Zone
	held  *bounded.Map[string, document]
	turn  chan struct{}
}

// document is a document that was fetched.
type document struct {
	body  []byte
	until time.Time
}

func newDocuments(s *shelf, t *tries, n egress.Network) *documents {
	d := &documents{shelf: s, tries: t, zone: n.Zone(""), turn: make(chan struct{}, fetchesAtOnce)}
	d.held = bounded.New(bounded.Options[string, document]{MaxCount: maxDocuments, TTL: maxDocumentAge, KeepUsed: true, Now: s.now})
	return d
}

// isDocumentURL returns why a client_id is not the URL of a metadata document, "" if it is.
func isDocumentURL(id string) string {
	u, err := url.Parse(id)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return "is not an https URL"
	case u.User != nil || strings.Contains(id, "#"):
		return "has a user or a fragment"
	case u.Path == "" || u.Path == "/":
		return "has no path"
	case path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") || strings.Contains(strings.ToLower(u.EscapedPath()), "%2e"):
		return "has a path with dots"
	case u.String() != id:
		return "is not in its plain form"
	}
	return ""
}

// client returns the client of a metadata document.
func (d *documents) client(ctx context.Context, source, id string) (*Client, error) {
	if why := isDocumentURL(id); why != "" {
		return nil, unknownClient("client_id " + why)
	}
	body, err := d.fetch(ctx, source, id)
	var known *refusal
	switch {
	case errors.As(err, &known):
		return nil, err
	case err != nil:
		d.log.Info("a client's metadata document cannot be fetched", "client_id", id, "err", err)
		return nil, unknownClient("the metadata document at client_id cannot be fetched; its publisher finds the reason in the log of weir")
	}
	var m clientMetadata
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, unknownClient("the metadata document at client_id is not JSON of this kind")
	}
	if m.ID != id {
		return nil, unknownClient("client_id in the metadata document is not its own URL")
	}
	if why := m.check(); why != "" {
		return nil, unknownClient("the metadata document at client_id is not accepted: " + why)
	}
	c := &Client{ID: id, Name: m.Name, Redirects: m.Redirects, Logouts: m.Logouts, From: documented, Method: "none"}
	switch m.Method {
	case "", "none":
	case "private_key_jwt":
		if len(m.Keys) == 0 && m.KeysURL == "" {
			return nil, unknownClient("the metadata document has private_key_jwt and no keys")
		}
		c.Method, c.Keys, c.KeysURL = m.Method, m.Keys, m.KeysURL
	default: // a secret in a document is none
		return nil, unknownClient("token_endpoint_auth_method of a metadata document must be none or private_key_jwt")
	}
	return c, nil
}

// fetch returns a document that a client names.
func (d *documents) fetch(ctx context.Context, source, address string) ([]byte, error) {
	now := d.now()
	if held, ok := d.held.Get(address); ok && now.Before(held.until) {
		return held.body, nil
	}
	if wait := d.tries.take("document "+source, 20, 3*time.Second); wait > 0 {
		return nil, &refusal{http.StatusTooManyRequests, "temporarily_unavailable", "there are too many requests for metadata documents; wait " + seconds(wait) + " seconds"}
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("%.200s is not https", u.Redacted())
	}
	if err := d.zone.Check(u, true); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "weir")
	resp, err := d.zone.Transport().RoundTrip(r) // follows no redirect
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d", u.Redacted(), resp.StatusCode)
	case len(body) > maxDocument:
		return nil, fmt.Errorf("%s: it is over %d bytes", u.Redacted(), maxDocument)
	}
	d.held.Put(address, document{body, now.Add(egress.Freshness(resp.Header, usualDocumentAge, minDocumentAge, maxDocumentAge))}, 0)
	return body, nil
}
