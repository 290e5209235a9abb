package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// toServer returns the transport of a baseline.
func toServer() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConns:        2 * maxCallers,
		MaxIdleConnsPerHost: 2 * maxCallers,
		IdleConnTimeout:     10 * time.Minute,
		DisableCompression:  true,
		WriteBufferSize:     16 << 10,
		ReadBufferSize:      16 << 10,
	}
}

// reverseProxy returns an httputil.ReverseProxy, configured to be as fast as it can be.
func reverseProxy(target *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:  toServer(),
		BufferPool: &copyBuffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without it, the server closes a body that its Transport looks at once more
		// after the last byte, and one large answer in some thousands breaks off.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	})
}

// serveProxy is the baseline.
func serveProxy(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("proxy needs the url of the upstream")
	}
	target, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	return serveHTTP(ctx, freePort, reverseProxy(target), stdin, stdout)
}

// copyBuffers is a pool as ReverseProxy wants it.
type copyBuffers struct{ pool sync.Pool }

var _ httputil.BufferPool = (*copyBuffers)(nil)

// Get implements httputil.BufferPool.
func (c *copyBuffers) Get() []byte { return c.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (c *copyBuffers) Put(b []byte) { c.pool.Put((*[32 << 10]byte)(b)) }
