package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"
)

// balancer sends each request to the next node, whatever session it is of. If the connection is refused, the node
// has got nothing of the request, and the next one gets it.
type balancer struct {
	nodes     []*node
	turn      atomic.Uint32
	transport *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errors.New("no node is ready")
	for range b.nodes {
		n := b.nodes[int(b.turn.Add(1))%len(b.nodes)]
		if !n.isReady() {
			continue
		}
		r.URL.Scheme, r.URL.Host = "http", n.address
		var resp *http.Response
		resp, err = b.transport.RoundTrip(r)
		var refused *net.OpError
		if err == nil || !errors.As(err, &refused) || refused.Op != "dial" {
			return resp, err
		}
	}
	return nil, err
}

// balance starts the balancer.
func (c *cluster) balance() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b := &balancer{nodes: c.nodes, transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: &httputil.ReverseProxy{
		Transport: b, FlushInterval: -1, Rewrite: func(*httputil.ProxyRequest) {},
		ErrorLog: discard,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, err.Error())
		},
	}, ErrorLog: discard}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	c.url = "http://" + l.Addr().String()
	c.ends = append(c.ends, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		_ = server.Close()
		<-done
	})
	return nil
}

// discard drops what net/http says of connections that break: that they do is the point.
var discard = log.New(io.Discard, "", 0)
