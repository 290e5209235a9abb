package mcpregistry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/lazy"
)

// Bounds of requests and answers.
const (
	maxAnswer = 1 << 20 // bytes
	maxPages  = 20      // of one search
	pageSize  = "100"
	maxWords  = 3 // of a query that the registry is asked for
)

// defaultURL is the registry of the MCP project.
const defaultURL = "https://registry.modelcontextprotocol.io"

// ErrMissing is the error for a server that is not in the registry.
var ErrMissing = errors.New("the registry has no such server")

// Options configure a Client.
type Options struct {
	URL      string        // of the registry, without /v0.1; "" means defaultURL
	HTTP     *http.Client  // nil: one without settings; its Timeout is not used
	CacheDir string        // "" keeps no answers
	Timeout  time.Duration // of one request; 0: 10 s
	Now      func() time.Time
}

// Client asks one registry. It is safe for concurrent use.
type Client struct {
	base    string
	http    *http.Client
	cache   cache
	timeout time.Duration
}

// New returns a Client. It sends no request.
func New(o Options) (*Client, error) {
	base := strings.TrimRight(cmp.Or(o.URL, defaultURL), "/")
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("registry.url must be an http or https URL such as %s", defaultURL)
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{base, o.HTTP, cache{o.CacheDir, o.Now}, cmp.Or(o.Timeout, 10*time.Second)}, nil
}

// serverName matches names of servers: a namespace and a name.
var serverName = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9.-]{0,127}/[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// isName reports whether a text can be the name of a server in a registry.
func isName(name string) bool { return serverName().MatchString(name) }

// Latest returns the newest version of a server. age is how old the answer is: 0 if the registry
// gave it now. The error wraps [ErrMissing] if the registry does not have the server. A server that
// was deleted is an error with the reason that the registry gives.
func (c *Client) Latest(ctx context.Context, name string) (s Server, age time.Duration, err error) {
	if !isName(name) {
		return s, 0, fmt.Errorf("%q is no name of the registry, such as io.github.owner/server", text.Fit(name, 80))
	}
	body, age, err := c.get(ctx, "/v0.1/servers/"+url.PathEscape(name)+"/versions/latest")
	if err != nil {
		return s, 0, fmt.Errorf("%s: %w", name, err)
	}
	if s, err = ParseServer(body); err != nil {
		return s, 0, fmt.Errorf("%s: the registry's answer: %w", name, err)
	}
	if s.Name != name {
		return s, 0, fmt.Errorf("%s: the registry answers with %q", name, text.Fit(s.Name, 80))
	}
	if s.Status == "deleted" {
		return s, 0, fmt.Errorf("%s has been deleted from the registry: %s", name, cmp.Or(text.Line(s.StatusMessage, 200), "no reason is given"))
	}
	return s, age, nil
}

// Search returns up to n servers for some words, the best first. age is the age of the oldest
// cached answer in the result, or 0 if the registry gave all of them now.
func (c *Client) Search(ctx context.Context, query string, n int) (hits []Server, age time.Duration, err error) {
	found := map[string]Server{}
	pages := 0
	for _, word := range wordsOf(query) {
		cursor := ""
		for pages < maxPages {
			pages++
			at := "/v0.1/servers?" + url.Values{"search": {word}, "version": {"latest"}, "limit": {pageSize}, "cursor": {cursor}}.Encode()
			body, old, err := c.get(ctx, strings.Replace(at, "cursor=&", "", 1))
			if err != nil {
				return nil, 0, err
			}
			age = max(age, old)
			page, next, err := parsePage(body)
			if err != nil {
				return nil, 0, fmt.Errorf("the registry's answer: %w", err)
			}
			for _, s := range page {
				if s.Status != "deleted" {
					found[s.Name] = s
				}
			}
			if next == "" || next == cursor {
				break
			}
			cursor = next
		}
	}
	return ranked(query, found, n), age, nil
}

// wordsOf returns the words that a registry is asked for, the longest first. It compares them with
// names as they are.
func wordsOf(query string) []string {
	words := strings.Fields(query)
	slices.SortStableFunc(words, func(a, b string) int { return len(b) - len(a) })
	words = slices.DeleteFunc(words, func(w string) bool { return len(w) < 3 && len(words) > 1 })
	return words[:min(len(words), maxWords)]
}

// ranked orders servers as weir orders tools.
func ranked(query string, found map[string]Server, n int) []Server {
	docs := make([]search.Doc, 0, len(found))
	for id, s := range found {
		docs = append(docs, search.Doc{ID: id, Server: id, Name: id, Title: s.Title, Description: s.Description})
	}
	slices.SortFunc(docs, func(a, b search.Doc) int { return strings.Compare(a.ID, b.ID) })
	var out []Server
	for _, hit := range search.New(search.Options{}).With("registry", docs).Search(query, n) {
		out = append(out, found[hit.ID])
	}
	return out
}

// unavailable is an error that an older answer from the cache may replace.
type unavailable struct{ error }

func (u unavailable) Unwrap() error { return u.error }

// get returns an answer of the registry, or the cached one if the registry cannot be reached.
func (c *Client) get(ctx context.Context, path string) (body []byte, age time.Duration, err error) {
	body, err = c.fetch(ctx, c.base+path)
	if err == nil {
		c.cache.put(c.base+path, body)
		return body, 0, nil
	}
	if away := (unavailable{}); errors.As(err, &away) && ctx.Err() == nil {
		if body, age, ok := c.cache.get(c.base + path); ok {
			return body, age, nil
		}
	}
	return nil, 0, err
}

func (c *Client) fetch(ctx context.Context, at string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, unavailable{fmt.Errorf("the registry %s did not answer within %s", c.base, c.timeout)}
	}
	if err != nil {
		return nil, unavailable{fmt.Errorf("the registry cannot be reached: %w", err)}
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, ErrMissing
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return nil, unavailable{fmt.Errorf("the registry %s answers %s", c.base, resp.Status)}
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the registry %s answers %s", c.base, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, unavailable{fmt.Errorf("the registry %s did not answer within %s", c.base, c.timeout)}
	case err != nil:
		return nil, unavailable{fmt.Errorf("the registry's answer ended early: %w", err)}
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the registry's answer is larger than %d MB", maxAnswer>>20)
	case !json.Valid(body):
		return nil, errors.New("the registry's answer is not JSON; check registry.url")
	}
	return body, nil
}
