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
	"unicode"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Errors of a fetch.
var (
	// ErrRefused: the URL may not be fetched.
	ErrRefused = errors.New("resource_url refused")
	// ErrGone: the server does not know the resource (any more).
	ErrGone = errors.New("unknown or expired resource")
	// ErrFetch: the server could not be reached or gave another answer. A retry may help, unless
	// the error is also ErrAnswer.
	ErrFetch = errors.New("fetching the resource failed")
	// ErrAnswer: the server's answer is unusable, and a retry would not help.
	ErrAnswer = fmt.Errorf("%w: its answer cannot be used", ErrFetch)
)

const defaultMaxBytes = 256 << 20

// FetchOptions bound a Fetcher. With the zero value it fetches from no server.
type FetchOptions struct {
	// Allow lists the servers that may be asked, as exact host:port pairs such as "127.0.0.1:8088",
	// "[::1]:8088" or "weather.example.com:443". Hosts are compared literally, except for case.
	Allow []string
	// Peers returns further servers, which may change. It is called for each fetch, possibly
	// concurrently; nil means none.
	Peers func() []Peer
	// Private lists non-public networks into which an allowed name may resolve, such as 10.0.0.0/8.
	// Allowed addresses need no entry, and localhost may be loopback.
	Private []netip.Prefix
	// MaxBytes bounds a whole response; 0 means 256 MB. One row has at most as many, and at most 16 MB.
	MaxBytes int64
	// Timeout bounds a whole fetch, or each wait of one that is read row by row; 0 means a minute.
	Timeout time.Duration
	// TLS is used for https; nil is the system's.
	TLS *tls.Config
	// Lookup resolves names; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Peer is a server that is not configured, such as an agent that has registered itself, with its
// permitted addresses.
type Peer struct {
	Server string // host:port; anything else permits nothing
	Rule   address.Rule
}

// Fetcher fetches bodies from data planes. A resource_url comes from a model, so it must not become
// a way to reach other hosts:
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

// NewFetcher returns a Fetcher. If an entry of the allow list is not a host:port, the error names
// it.
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
		f.opts.MaxBytes = defaultMaxBytes
	}
	if f.opts.Timeout <= 0 {
		f.opts.Timeout = time.Minute
	}
	return f, nil
}

// allowed returns an entry of the allow list as address.HostPort writes it, false if it is not a
// host:port.
func allowed(entry string) (string, bool) {
	host, port, err := net.SplitHostPort(entry)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || host == "" || n == 0 {
		return "", false
	}
	return address.HostPort(host, port), true
}

// target is a URL that passed all checks except the checks of its addresses.
type target struct {
	url  *url.URL
	name string // host:port
	rule address.Rule
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Check returns an error if a URL may not be fetched, as far as that can be decided without a
// resolver. The error wraps ErrRefused and has the reason.
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
	t := target{url: u, name: address.Server(u)}
	if f.allow[t.name] {
		t.rule.Private = f.opts.Private
		t.rule.Allow, err = address.NewList([]string{t.name})
		return t, err
	}
	var names []string
	if f.opts.Peers != nil {
		for _, peer := range f.opts.Peers() {
			name, ok := allowed(peer.Server)
			if ok && name == t.name {
				t.rule = peer.Rule
				return t, nil
			}
			if ok {
				names = append(names, name)
			}
		}
	}
	return target{}, refused("%.100s is not one of the servers that may be asked here (%s); have its operator add it to the allowed servers", t.name, f.allowedNames(names))
}

// allowedNames lists the servers that may be asked.
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

// Fetch requests rows and columns from the server of resourceURL, all of them if the lists are
// empty. It returns them as a table with a _row_id column, without rows that lack one. Fetch spends
// the token of the URL.
func (f *Fetcher) Fetch(ctx context.Context, resourceURL string, rowIDs []int, columns []string) (*table.Table, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.opts.Timeout, fmt.Errorf("%w: it took longer than %s", ErrFetch, f.opts.Timeout))
	defer cancel()
	a, err := f.open(ctx, resourceURL, table.Selection{RowIDs: rowIDs, Columns: columns}, false, f.opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Close() }() // the wanted part was read
	return a.Table()
}

// Table reads all rows that are left into a table that has its _row_id column.
func (a *Answer) Table() (*table.Table, error) {
	b := table.NewBuilder(table.Options{KeepRowID: true}, nil)
	for {
		row, err := a.Next()
		if errors.Is(err, io.EOF) {
			return b.Table()
		}
		if err == nil {
			err = memory.Take(a.ctx, tableCost*int64(len(row)))
		}
		if err == nil {
			err = b.Append(row)
		}
		if err != nil {
			return nil, err
		}
	}
}

// tableCost is how many bytes a table takes for a byte of its rows: the rows, as many while they grow, and
// their index.
const tableCost = 3

// Open requests rows and columns from the server of resourceURL. It returns the answer once its
// first byte has arrived, to be read row by row: a table of any size uses the memory of one row.
// With strict, a column that does not exist is ErrRequest and spends nothing.
func (f *Fetcher) Open(ctx context.Context, resourceURL string, sel table.Selection, strict bool) (*Answer, error) {
	return f.open(ctx, resourceURL, sel, strict, 0)
}

// open is Open with a bound on the bytes of the whole answer; 0 is none.
func (f *Fetcher) open(ctx context.Context, resourceURL string, sel table.Selection, strict bool, most int64) (*Answer, error) {
	t, err := f.check(resourceURL)
	if err != nil {
		return nil, err
	}
	a := &Answer{ctx: ctx, server: t.name, stall: f.opts.Timeout, most: most, row: int(min(f.opts.MaxBytes, maxMember)), sieve: table.NewSieve(sel)}
	cancel := func(error) {}
	a.ctx, cancel = context.WithCancelCause(ctx)
	a.idle = time.AfterFunc(a.stall, func() { cancel(fmt.Errorf("%w: %s sent nothing for %s", ErrFetch, a.server, a.stall)) })
	resp, transport, err := f.post(a.ctx, t, appendRequest(nil, sel.RowIDs, sel.Columns), strict)
	a.end = func() {
		cancel(nil)
		if transport != nil {
			transport.CloseIdleConnections()
		}
	}
	if err == nil {
		a.body = resp.Body
		if err = f.accept(a.server, resp, most); err == nil {
			err = a.begin()
		}
	}
	if err != nil {
		err = a.failed(err)
		a.idle.Stop()
		if a.body != nil {
			_ = a.body.Close() // the first error is the one to report
		}
		a.end()
		return nil, err
	}
	return a, nil
}

// accept checks the head of an answer, and reads why where it is a refusal.
func (f *Fetcher) accept(server string, resp *http.Response, most int64) error {
	switch code := resp.StatusCode; {
	case code == http.StatusOK && most > 0 && resp.ContentLength > most:
		return tooLarge(server, most)
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotFound:
		return fmt.Errorf("%w at %s: a resource_url works once, and not for long; call the resource tool again for a new one", ErrGone, server)
	case code >= 300 && code < 400:
		return refused("%s answered with a redirect (status %d), and redirects are not followed", server, code)
	}
	why := reason(resp.Body)
	switch code := resp.StatusCode; {
	case code == http.StatusBadRequest && why != "":
		return badRequest("%s: %s", server, why)
	case code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return fmt.Errorf("%w: %s answered with status %d%s", ErrFetch, server, code, behind(why))
	default:
		return fmt.Errorf("%w: %s answered with status %d%s", ErrAnswer, server, code, behind(why))
	}
}

func behind(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// maxReason bounds the text of a server's reason, in bytes.
const maxReason = 300

// reason returns the member error of a server's answer, as one line; "" if there is none.
func reason(body io.Reader) string {
	data, _ := io.ReadAll(io.LimitReader(body, 16<<10)) // it is only reported
	text := rawjson.Text(rawjson.Get(data, "error"))
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
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

// post sends a request. The caller closes the answer's body, and then the idle
// connections of the transport.
func (f *Fetcher) post(ctx context.Context, t target, body []byte, strict bool) (*http.Response, *http.Transport, error) {
	dialer := &address.Dialer{Rule: t.rule, Lookup: f.opts.Lookup, Dial: f.opts.Dial}
	transport := &http.Transport{
		Proxy:              nil, // a proxy would resolve the name again
		DisableCompression: true,
		DisableKeepAlives:  true, // one fetch, and the address is good only for it
		TLSClientConfig:    f.opts.TLS.Clone(),
		ForceAttemptHTTP2:  false,
		DialContext:        dialer.DialContext,
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, transport, refused("it is no URL")
	}
	req.Header.Set("Content-Type", TypeJSON)
	req.Header.Set("Accept", TypeJSON)
	if strict {
		req.Header.Set("Prefer", preferStrict)
	}
	resp, err := client.Do(req)
	if err = withoutURL(err); errors.Is(err, address.ErrRefused) {
		return nil, transport, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, transport, fmt.Errorf("%w: %w", ErrFetch, err)
	}
	return resp, transport, nil
}

func tooLarge(server string, most int64) error {
	return fmt.Errorf("%w: %s sends more than %d bytes; select fewer rows or columns", ErrAnswer, server, most)
}

// withoutURL keeps the token, a secret, out of the error.
func withoutURL(err error) error {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return ue.Err
	}
	return err
}
