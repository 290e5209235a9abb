package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/address"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// relays replaces the resource_urls of one result that lead to this machine's
// loopback by some of the gateway's own, behind which the rows are fetched when
// a reader asks for them.
type relays struct {
	store            Store
	base             func() (string, error)
	ttl              time.Duration
	principal, label string
}

// maxKnownColumns bounds the names of columns that are remembered of a table that
// is elsewhere, in bytes of JSON.
const maxKnownColumns = 64 << 10

// replace returns the result with other URLs.
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
				return nil, false // others may reach it, or fetching it is not allowed
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

// relayed is a URL of a server and what takes its place.
type relayed struct {
	to   string
	docs int // in which it stands
}

// replaceText replaces URLs where they stand in a result as they are, which a URL
// does in every form that a document has, if nothing escapes its slashes. Where it
// stands elsewhere, too, or values have to be put right, ok is false. A result of
// many megabytes is copied once so, and not once for each level of a document.
func replaceText(result []byte, found map[string]*relayed) (out []byte, ok bool) {
	if bytes.Contains(result, []byte("NaN")) || bytes.Contains(result, []byte("Infinity")) {
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

// token makes a resource_url of the gateway for rows that are elsewhere.
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

// columnsIn reads the columns of a table that an answer tells, nil where it does
// not, or tells too many.
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

// loopbackSource returns what fetches a URL that leads to this machine, and from
// where. The URL is an upstream's word: a source that leads anywhere else is an
// error. A server that listens at every address may name the unspecified one, which
// stands for loopback here.
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
