package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// relays replaces the resource_urls of one result that point to this machine's loopback by URLs of
// the gateway. The rows are fetched when a reader requests them.
type relays struct {
	store            Store
	base             func() (string, error)
	ttl              time.Duration
	principal, label string
}

// maxKnownColumns bounds the column names that are stored for a remote table, in bytes of JSON.
const maxKnownColumns = 64 << 10

// replace returns the result with the new URLs.
func (r *relays) replace(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	found := map[string]*relayed{} // by the server's URL
	var failed error
	dispatch.EachDocument(result, plane.ParamURL, func(obj []byte) ([]byte, bool) {
		from, err := rawjson.String(rawjson.Get(obj, plane.ParamURL))
		if err != nil || failed != nil {
			return nil, false
		}
		u := found[from]
		if u == nil {
			source, at, err := loopbackSource(from)
			if err != nil {
				return nil, false // reachable for others, or fetching is not allowed
			}
			u = &relayed{}
			found[from] = u
			u.to, failed = r.token(ctx, &plane.Relay{Fetcher: source, URL: at, Columns: columnsIn(obj)})
		}
		u.docs++
		return nil, false
	})
	if failed != nil || len(found) == 0 {
		return result, failed
	}
	if out, ok := replaceText(result, found); ok {
		return out, nil
	}
	out := dispatch.EachDocument(result, plane.ParamURL, func(obj []byte) ([]byte, bool) {
		u := found[rawjson.Text(rawjson.Get(obj, plane.ParamURL))]
		if u == nil {
			return nil, false
		}
		next, err := rawjson.Set(obj, plane.ParamURL, rawjson.Quote(u.to))
		failed = err
		return next, err == nil
	})
	return out, failed
}

// relayed is a server's URL and its replacement.
type relayed struct {
	to   string
	docs int // in which it stands
}

// replaceText replaces URLs in the raw text of a result, without parsing it. That works in all
// forms of a document that do not escape slashes. If a URL occurs elsewhere as well, or values must
// be repaired, ok is false. So a large result is copied once, instead of once per nested document.
func replaceText(result []byte, found map[string]*relayed) (out []byte, ok bool) {
	if rawjson.Contains(result, "NaN") || rawjson.Contains(result, "Infinity") {
		return nil, false
	}
	for from, u := range found {
		if bytes.Count(result, []byte(from)) != u.docs {
			return nil, false
		}
	}
	for from, u := range found {
		result = bytes.ReplaceAll(result, []byte(from), []byte(u.to))
	}
	return result, true
}

// token creates a resource_url of the gateway for remote rows.
func (r *relays) token(ctx context.Context, from *plane.Relay) (string, error) {
	base, err := r.base()
	if err != nil {
		return "", err
	}
	token, err := r.store.DepositSource(ctx, r.principal, r.label, from, r.ttl)
	if err != nil {
		return "", err
	}
	return plane.URL(base, token.Value), nil
}

// columnsIn returns the columns that an answer lists, or nil if it lists none or too many.
func columnsIn(obj []byte) []string {
	list := rawjson.Get(obj, "columns")
	if !rawjson.IsArray(list) || len(list) > maxKnownColumns {
		return nil
	}
	names := []string{}
	if rawjson.EachElement(list, func(v []byte) bool {
		name, err := rawjson.String(v)
		if err == nil {
			names = append(names, name)
		}
		return true
	}) != nil {
		return nil
	}
	return names
}

// loopbackSource returns the fetcher for a URL that points to this machine, and its address. The
// URL comes from an upstream: any other destination is an error. The unspecified address counts as
// loopback, because a server that listens on all addresses may name it.
func loopbackSource(resourceURL string) (source *plane.Fetcher, at string, err error) {
	u, err := url.Parse(resourceURL)
	if err != nil {
		return nil, "", err
	}
	if ip, ok := address.ParseIP(u.Hostname()); ok && ip.IsUnspecified() {
		own := "127.0.0.1"
		if ip.Is6() {
			own = "::1"
		}
		_, port, _ := net.SplitHostPort(address.Server(u))
		u.Host = net.JoinHostPort(own, port)
	}
	if !address.Loopback(u.Hostname()) {
		return nil, "", errors.New("it does not lead to this machine")
	}
	f, err := plane.NewFetcher(plane.FetchOptions{Allow: []string{address.Server(u)}})
	if err != nil {
		return nil, "", err
	}
	at = u.String()
	return f, at, f.Check(at)
}
