package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/weir-mcp/weir/internal/net/hop"
)

// maxBare bounds the bytes that the bare hop reads of a request and of a response.
const maxBare = 64 << 20

// serveHop is the floor of a gateway in Go: net/http's server in front, weir's client behind, and
// between them a whole message in each direction. It looks at nothing.
func serveHop(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("hop needs the url of the upstream")
	}
	target, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	client := hop.New(toServer())
	defer client.CloseIdleConnections()
	return serveHTTP(ctx, freePort, &bare{client: client, host: target.Host}, stdin, stdout)
}

// bare is the handler of serveHop.
type bare struct {
	client  http.RoundTripper
	host    string
	buffers sync.Pool // of *[]byte
}

// ServeHTTP implements http.Handler.
func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, "", r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	out.URL = &url.URL{Scheme: "http", Host: b.host, Path: r.URL.Path}
	out.Host, out.Header, out.ContentLength = b.host, r.Header, r.ContentLength
	resp, err := b.client.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	buf, _ := b.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer b.buffers.Put(buf)
	n := int(resp.ContentLength)
	if n < 0 || n > maxBare {
		http.Error(w, "a response of unknown length", http.StatusBadGateway)
		return
	}
	if cap(*buf) < n+1 {
		*buf = make([]byte, n+1)
	}
	if n, err = io.ReadFull(resp.Body, (*buf)[:n+1]); err != io.ErrUnexpectedEOF && err != io.EOF {
		http.Error(w, "the response broke off", http.StatusBadGateway)
		return
	}
	h := w.Header()
	for k, v := range resp.Header {
		h[k] = v
	}
	h["Content-Length"] = []string{strconv.Itoa(n)}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write((*buf)[:n])
}
