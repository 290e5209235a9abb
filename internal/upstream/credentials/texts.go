package credentials

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/upstream"
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
	known   *bounded.Map[vault.ID, string]           // "" for one that is missing
	refused *bounded.Map[refusal, [sha256.Size]byte] // hashes of the texts that servers refused
}

// refusal is what a server can refuse: a text of a principal. Another server may take the same text.
type refusal struct {
	server, url string
	text        vault.ID
}

// refusalOf names the refusal of a text of a principal by a server.
func refusalOf(server *config.Server, name, principal string) refusal {
	return refusal{server.Name, server.URL, TextID(name, principal)}
}

func newTexts(store vault.Store, inUse func(string)) *texts {
	return &texts{
		store: store, inUse: inUse,
		known:   bounded.New(bounded.Options[vault.ID, string]{MaxCount: maxTexts, TTL: textTime}),
		refused: bounded.New(bounded.Options[refusal, [sha256.Size]byte]{MaxCount: maxTexts, TTL: refusedTime}),
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

// all reports whether a principal has all texts of a server, and the server has refused none of them.
func (t *texts) all(server *config.Server, principal string) bool {
	for _, name := range server.UserTexts() {
		text, err := t.get(context.Background(), name, principal)
		if err != nil || text == "" {
			return false
		}
		if sum, ok := t.refused.Get(refusalOf(server, name, principal)); ok && sum == sha256.Sum256([]byte(text)) {
			return false
		}
	}
	return true
}

// refuse notes that a server has refused the texts of a principal, by name, that a request carried. The
// store may have others by now.
func (t *texts) refuse(server *config.Server, principal string, carried map[string]string) {
	for name, text := range carried {
		t.refused.Put(refusalOf(server, name, principal), sha256.Sum256([]byte(text)), 0)
	}
}

// isAt reports whether a URL has the origin of a server: credentials for the server go nowhere else.
func isAt(s *config.Server, u *url.URL) bool {
	at, err := url.Parse(s.URL)
	return err == nil && at.Scheme == u.Scheme && at.Host == u.Host
}

// textTransport puts texts of a principal into the headers of requests to a server.
type textTransport struct {
	signIns *SignIns
	server  *config.Server
	of      upstream.Owner
	base    http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request to another origin gets no text. The error is a
// *oauth.SignInError, as the cause of an *mcp.Error, if a text is missing or the server answers 401.
func (t *textTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isAt(t.server, req.URL) {
		return t.base.RoundTrip(req)
	}
	sent, carried := req.Clone(req.Context()), map[string]string{}
	for name, value := range t.server.Headers {
		if !mcpserver.HasUserText(value) {
			continue
		}
		text, err := mcpserver.FillUserTexts(value, func(name string) (text string, err error) {
			text, known := carried[name]
			if !known {
				text, err = t.signIns.Text(req.Context(), t.server.Name, name, t.of)
				carried[name] = text
			}
			return text, err
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
	oauth.Drop(resp)
	t.signIns.texts.refuse(t.server, t.of.Principal, carried)
	return nil, t.signIns.missing(t.server.Name, t.server.UserTexts()[0], t.of, "the server refuses the stored one")
}
