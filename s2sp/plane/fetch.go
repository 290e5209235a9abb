package plane

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/rawjson"
	"github.com/weir-mcp/weir/table"
)

// Errors of a fetch.
var (
	// ErrRefused: the URL is not one that may be fetched.
	ErrRefused = errors.New("resource_url refused")
	// ErrGone: the server does not know the resource, or not any more.
	ErrGone = errors.New("unknown or expired resource")
	// ErrFetch: the server could not be reached or answered something else.
	ErrFetch = errors.New("fetching the resource failed")
)

// FetchOptions bound what a Fetcher does. The zero value reaches nobody.
type FetchOptions struct {
	// Allow lists the servers that may be asked, as exact host:port pairs such as
	// "127.0.0.1:8088", "[::1]:8088" or "weather.example.com:443". Hosts are
	// compared as they are written, but for case.
	Allow []string
	// Peers returns more such servers, that come and go: it is asked for each
	// fetch. Entries that are no host:port allow nothing. It may be called
	// concurrently; nil is none.
	Peers func() []string
	// Private lists networks that are not public into which an allowed name may
	// resolve, such as 10.0.0.0/8. Allowed addresses need no entry here, and
	// localhost may be loopback.
	Private []netip.Prefix
	// MaxBytes bounds a response; 0 is 256 MB.
	MaxBytes int64
	// Timeout bounds a whole fetch; 0 is a minute.
	Timeout time.Duration
	// TLS is used for https; nil is the system's.
	TLS *tls.Config
	// Lookup resolves names; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Fetcher gets bodies from data planes. A resource_url comes from a model, so it
// must not become a way to reach other hosts:
//
//	resource_url ─▶ http or https? no user, query or fragment? /s2sp/data/{one token}?
//	             ─▶ host:port on the allow list, or a peer's?
//	             ─▶ resolve once ─▶ every address public, or allowed?
//	             ─▶ connect to that very address ─▶ POST, no proxy, no redirect, bounded
//
// It is safe for concurrent use.
type Fetcher struct {
	opts  FetchOptions
	allow map[string]bool
}

// NewFetcher returns a Fetcher, or an error that names the entry of the allow
// list that is no host:port.
func NewFetcher(opts FetchOptions) (*Fetcher, error) {
	f := &Fetcher{opts: opts, allow: map[string]bool{}}
	for _, entry := range opts.Allow {
		name, ok := allowed(entry)
		if !ok {
			return nil, fmt.Errorf("allowed server %q is no host:port", entry)
		}
		f.allow[name] = true
	}
	if f.opts.MaxBytes <= 0 {
		f.opts.MaxBytes = 256 << 20
	}
	if f.opts.Timeout <= 0 {
		f.opts.Timeout = time.Minute
	}
	if f.opts.Lookup == nil {
		f.opts.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if f.opts.Dial == nil {
		f.opts.Dial = (&net.Dialer{}).DialContext
	}
	return f, nil
}

// allowed is an entry of the allow list as hostPort writes it, false for one that
// is no host:port.
func allowed(entry string) (string, bool) {
	host, port, err := net.SplitHostPort(entry)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || host == "" || n == 0 {
		return "", false
	}
	return hostPort(host, port), true
}

// hostPort writes a server as the allow list has it: addresses in their usual
// form, names in lower case.
func hostPort(host, port string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	return net.JoinHostPort(strings.ToLower(host), port)
}

// ServerOf is the server of an http or https URL as FetchOptions.Allow names it:
// host:port, also where the URL leaves the port out.
func ServerOf(u *url.URL) string { return hostPort(u.Hostname(), portOf(u)) }

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// target is a URL that passed all checks but those of its addresses.
type target struct {
	url  *url.URL
	host string
	port string
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Check says whether a URL may be fetched as far as that shows without a
// resolver. The error wraps ErrRefused and says what is wrong with it.
func (f *Fetcher) Check(resourceURL string) error {
	_, err := f.check(resourceURL)
	return err
}

func (f *Fetcher) check(resourceURL string) (target, error) {
	if strings.HasPrefix(resourceURL, "ddi://") {
		return target{}, refused("a ddi:// handle works only in the agent's program or gateway that made it, which replaces it by body_data before the call")
	}
	u, err := url.Parse(resourceURL)
	if err != nil {
		return target{}, refused("it is no URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, refused("its scheme is %.20q; http and https are fetched", u.Scheme)
	case u.User != nil:
		return target{}, refused("it holds a user name, which no resource_url has")
	case u.Opaque != "" || u.Hostname() == "":
		return target{}, refused("it names no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return target{}, refused("it has a query or a fragment, which no resource_url has")
	}
	token, ok := strings.CutPrefix(u.Path, Path)
	if !ok || u.RawPath != "" || !isToken(token) {
		return target{}, refused("its path is not %s and one token", Path)
	}
	name := ServerOf(u)
	if !f.allow[name] {
		if peers := f.peers(); !slices.Contains(peers, name) {
			return target{}, refused("%.100s is not one of the servers that may be asked here (%s); have its operator add it to the allowed servers", name, f.allowedNames(peers))
		}
	}
	return target{u, u.Hostname(), portOf(u)}, nil
}

// peers are the servers that are allowed now beside the fixed ones.
func (f *Fetcher) peers() []string {
	if f.opts.Peers == nil {
		return nil
	}
	var names []string
	for _, entry := range f.opts.Peers() {
		if name, ok := allowed(entry); ok {
			names = append(names, name)
		}
	}
	return names
}

// allowedNames tells which servers may be asked.
func (f *Fetcher) allowedNames(names []string) string {
	for name := range f.allow {
		names = append(names, name)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "there are none"
	}
	const show = 5
	if len(names) > show {
		return strings.Join(names[:show], ", ") + fmt.Sprintf(" and %d more", len(names)-show)
	}
	return strings.Join(names, ", ")
}

// isToken reports whether s can be the token of a resource_url: letters, digits,
// "-" and "_".
func isToken(s string) bool {
	if s == "" || len(s) > 512 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// addresses resolves the host once. What it returns is what is connected to.
func (f *Fetcher) addresses(ctx context.Context, t target) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(t.host); err == nil {
		if ip.Zone() != "" {
			return nil, refused("%.60s is bound to a network interface", t.host)
		}
		return []netip.Addr{ip}, nil // on the allow list as it stands
	}
	found, err := f.opts.Lookup(ctx, t.host)
	if err != nil {
		return nil, fmt.Errorf("%w: %.100s has no address: %w", ErrFetch, t.host, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %.100s has no address", ErrFetch, t.host)
	}
	for i, ip := range found {
		ip = ip.Unmap().WithZone("")
		found[i] = ip
		loopback := strings.EqualFold(t.host, "localhost") && ip.IsLoopback()
		if !public(ip) && !loopback && !slices.ContainsFunc(f.opts.Private, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return nil, refused("%.100s resolves to %s, which is not a public address; allow the address itself, or its network", t.host, ip)
		}
	}
	return found, nil
}

// public reports whether an address is one of the open internet. Addresses that
// carry an IPv4 address inside are as public as that one.
func public(ip netip.Addr) bool {
	ip = ip.Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range notPublic() {
		if p.Contains(ip) {
			return false
		}
	}
	b := ip.As16()
	switch {
	case !ip.Is6():
		return true
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip): // NAT64
		return public(netip.AddrFrom4([4]byte(b[12:])))
	case netip.MustParsePrefix("2002::/16").Contains(ip): // 6to4
		return public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return true
}

// notPublic lists networks that netip does not know as private.
func notPublic() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

// Fetch asks the server of resourceURL for rows and columns, all of them where
// the lists are empty, and returns what came as a table with its _row_id column.
// The token of the URL is spent by that.
func (f *Fetcher) Fetch(ctx context.Context, resourceURL string, rowIDs []int, columns []string) (*table.Table, error) {
	t, err := f.check(resourceURL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.opts.Timeout, fmt.Errorf("%w: it took longer than %s", ErrFetch, f.opts.Timeout))
	defer cancel()
	data, err := f.post(ctx, t, appendRequest(nil, rowIDs, columns))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	var body [1][]byte
	if err := errors.Join(rawjson.Valid(data), rawjson.Fields(data, []string{"body"}, body[:])); err != nil {
		return nil, fmt.Errorf("%w: the answer is no S2SP body: %w", ErrFetch, err)
	}
	if body[0] == nil {
		return nil, fmt.Errorf("%w: the answer has no body", ErrFetch)
	}
	rows, err := table.Index(body[0], table.Options{KeepRowID: true})
	if err != nil {
		return nil, fmt.Errorf("%w: the body is no table: %w", ErrFetch, err)
	}
	return rows, nil
}

func appendRequest(dst []byte, rowIDs []int, columns []string) []byte {
	dst = append(dst, '{')
	if len(rowIDs) > 0 {
		dst = append(dst, `"row_ids":[`...)
		for i, id := range rowIDs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(id), 10)
		}
		dst = append(dst, ']')
	}
	if len(columns) > 0 {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = appendNames(append(dst, `"columns":`...), columns)
	}
	return append(dst, '}')
}

func (f *Fetcher) post(ctx context.Context, t target, body []byte) ([]byte, error) {
	addresses, err := f.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:              nil, // a proxy would resolve the name again
		DisableCompression: true,
		DisableKeepAlives:  true, // one fetch, and the address is good for it alone
		TLSClientConfig:    f.opts.TLS.Clone(),
		ForceAttemptHTTP2:  false,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var errs []error
			for _, ip := range addresses {
				conn, err := f.opts.Dial(ctx, network, net.JoinHostPort(ip.String(), t.port))
				if err == nil {
					return conn, nil
				}
				errs = append(errs, err)
			}
			return nil, errors.Join(errs...)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, refused("it is no URL")
	}
	req.Header.Set("Content-Type", TypeJSON)
	req.Header.Set("Accept", TypeJSON)
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFetch, withoutURL(err))
	}
	defer func() { _ = resp.Body.Close() }() // all that is wanted of it was read
	server := net.JoinHostPort(t.host, t.port)
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%w at %s: a resource_url works once, and not for long; call the resource tool again for a new one", ErrGone, server)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, refused("%s answered with a redirect (status %d), and redirects are not followed", server, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: %s answered with status %d", ErrFetch, server, resp.StatusCode)
	case resp.ContentLength > f.opts.MaxBytes:
		return nil, f.tooLarge(server)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, f.opts.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s broke off: %w", ErrFetch, server, err)
	}
	if int64(len(data)) > f.opts.MaxBytes {
		return nil, f.tooLarge(server)
	}
	return data, nil
}

func (f *Fetcher) tooLarge(server string) error {
	return fmt.Errorf("%w: %s sends more than %d bytes; select fewer rows", ErrFetch, server, f.opts.MaxBytes)
}

// withoutURL keeps the token, a secret, out of the error.
func withoutURL(err error) error {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return ue.Err
	}
	return err
}
