package metatool

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/result"
)

// Bounds of the links that one gateway remembers.
const (
	linkTTL      = time.Hour
	maxLinked    = 1024      // links of one principal
	maxLinkBytes = 128 << 10 // their URIs together
	maxLinkURI   = 4 << 10   // one URI
	maxLinkers   = 256       // principals with links
)

// links remembers which server has linked to a URI in a result, for each principal that was given
// the result. Servers may link to resources that they do not list, and only the server of the
// result knows the URI.
//
//	result of server A ── resource_link, embedded resource ──▶ links of the principal
//	resource_read of the URI ──▶ server A, as a resource that A does not list
//
// It is safe for concurrent use. Only the last server that linked to a URI counts.
type links struct {
	mu sync.Mutex // guards the creation of a principal's links
	of *bounded.Map[string, *bounded.Map[string, Place]]
}

func newLinks() *links {
	return &links{of: bounded.New(bounded.Options[string, *bounded.Map[string, Place]]{MaxCount: maxLinkers, KeepUsed: true})}
}

// remember records the links in a result of a server that a principal is given.
func (l *links) remember(principal string, from Place, raw json.RawMessage) {
	uris := linkedURIs(raw)
	if len(uris) == 0 {
		return
	}
	l.mu.Lock()
	own, ok := l.of.Get(principal)
	if !ok {
		own = bounded.New(bounded.Options[string, Place]{MaxCount: maxLinked, MaxBytes: maxLinkBytes, TTL: linkTTL})
		l.of.Put(principal, own, 0)
	}
	l.mu.Unlock()
	for _, uri := range uris {
		own.Put(uri, from, int64(len(uri)))
	}
}

// entry returns the resource that a link of a principal denotes: the one that the linking server
// lists, the template of it that matches, or else an entry outside the catalog. It returns nil
// without a link, and if a configured server has the URI and the linking one is not configured.
func (l *links) entry(s *Snapshot, principal, uri string) *catalog.Entry {
	own, ok := l.of.Get(principal)
	if !ok {
		return nil
	}
	from, ok := own.Get(uri)
	if !ok {
		return nil
	}
	if s.Catalog.Found(from.Upstream) {
		if owner, err := s.resource(uri, ""); err == nil && !s.Catalog.Found(owner.Upstream) {
			return nil
		}
	}
	if e := s.readable([]Place{from}, uri)[0].Entry; s.gives(e, uri) {
		return e
	}
	return nil
}

// linkedURIs returns the URIs of the resource links and of the embedded resources in a tool result,
// of the messages of a prompt, and of the contents of a resource.
func linkedURIs(raw json.RawMessage) (uris []string) {
	if !rawjson.Contains(raw, `"uri"`) {
		return nil
	}
	add := func(of []byte) {
		if uri := rawjson.Text(rawjson.Get(of, "uri")); uri != "" && len(uri) <= maxLinkURI {
			uris = append(uris, uri)
		}
	}
	block := func(v []byte) {
		switch result.KindOf(rawjson.Get(v, "type")) {
		case "resource_link":
			add(v)
		case "resource":
			add(rawjson.Get(v, "resource"))
		}
	}
	for _, list := range []struct {
		key  string
		each func([]byte)
	}{
		{"content", block},
		{"messages", func(v []byte) { block(rawjson.Get(v, "content")) }},
		{"contents", add},
	} {
		// The firewall reports a malformed result.
		_ = rawjson.EachElement(rawjson.Get(raw, list.key), func(v []byte) bool {
			list.each(v)
			return len(uris) < maxLinked
		})
	}
	return uris
}

// placeOf returns the server of a call's entry.
func placeOf(c *dispatch.Call) Place {
	return Place{Upstream: c.Entry.Upstream, Namespace: c.Entry.Namespace}
}
