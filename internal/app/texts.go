package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/bounded"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/oauth"
	"github.com/weir-mcp/weir/internal/vault"
)

// Bounds of the texts that are known.
const (
	maxTexts = 10_000
	// textTime is how long a text is used before the store is read again.
	textTime = 2 * time.Second
	// refusedTime is how long a text that a server has refused counts as missing.
	refusedTime = 5 * time.Minute
)

// texts are credentials of principals that weir credentials set has stored. All methods are safe for
// concurrent use.
type texts struct {
	store   vault.Store
	inUse   func(text string)
	known   *bounded.Map[vault.ID, string]            // "" for one that is missing
	refused *bounded.Map[vault.ID, [sha256.Size]byte] // hashes of the texts that servers refused
}

func newTexts(store vault.Store, inUse func(string)) *texts {
	return &texts{
		store: store, inUse: inUse,
		known:   bounded.New(bounded.Options[vault.ID, string]{MaxCount: maxTexts, TTL: textTime}),
		refused: bounded.New(bounded.Options[vault.ID, [sha256.Size]byte]{MaxCount: maxTexts, TTL: refusedTime}),
	}
}

// TextID names a text of a principal in the vault.
func TextID(name, principal string) vault.ID {
	return vault.ID{Kind: vault.Text, Principal: principal, Server: name}
}

// get returns a text of a principal, "" if there is none. A text that all callers share does not
// exist.
func (t *texts) get(ctx context.Context, name, principal string) (string, error) {
	if principal == oauth.Shared || principal == oauth.Anonymous {
		return "", nil
	}
	id := TextID(name, principal)
	if text, ok := t.known.Get(id); ok {
		return text, nil
	}
	r, err := t.store.Get(ctx, id)
	if err != nil && !errors.Is(err, vault.ErrMissing) {
		return "", err
	}
	text := string(r.Data)
	if text != "" {
		t.inUse(text)
	}
	t.known.Put(id, text, 0)
	return text, nil
}

// all reports whether a principal has all texts, and no server has refused one of them.
func (t *texts) all(names []string, principal string) bool {
	for _, name := range names {
		text, err := t.get(context.Background(), name, principal)
		if err != nil || text == "" {
			return false
		}
		if sum, ok := t.refused.Get(TextID(name, principal)); ok && sum == sha256.Sum256([]byte(text)) {
			return false
		}
	}
	return true
}

// refuse notes that a server has refused the texts of a principal.
func (t *texts) refuse(ctx context.Context, names []string, principal string) {
	for _, name := range names {
		if text, err := t.get(ctx, name, principal); err == nil && text != "" {
			t.refused.Put(TextID(name, principal), sha256.Sum256([]byte(text)), 0)
		}
	}
}

// textTransport puts texts of a principal into the headers of requests to a server.
type textTransport struct {
	signIns   *SignIns
	server    *config.Server
	principal string
	base      http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request to another origin gets no text. The error is a
// *oauth.SignInError, as the cause of an *mcp.Error, if a text is missing or the server answers 401.
func (t *textTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	at, err := url.Parse(t.server.URL)
	if err != nil || at.Scheme != req.URL.Scheme || at.Host != req.URL.Host {
		return t.base.RoundTrip(req)
	}
	sent := req.Clone(req.Context())
	for name, value := range t.server.Headers {
		if !config.HasUserText(value) {
			continue
		}
		text, err := config.FillUserTexts(value, func(text string) (string, error) {
			return t.signIns.Text(req.Context(), t.server.Name, text, t.principal)
		})
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, err
		}
		sent.Header.Set(name, text)
	}
	resp, err := t.base.RoundTrip(sent)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
	names := t.server.UserTexts()
	t.signIns.texts.refuse(req.Context(), names, t.principal)
	return nil, t.signIns.missing(t.server.Name, names[0], t.principal, "the server refuses the stored one")
}
