package natsserver

import (
	"crypto/tls"
	"net"
	"net/url"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// routePing is how often servers of a cluster ask one another for a sign of life, and routeMissed
	// how many may be missing.
	routePing   = 2 * time.Second
	routeMissed = 2
	// routeHandshake bounds the TLS handshake of a route.
	routeHandshake = 5 * time.Second
)

// Cluster is what a server knows of the servers that it keeps documents with. All of them have the
// same members, for good.
type Cluster struct {
	// Name is the cluster's, and Node the server's own, which no other member has.
	Name, Node string
	// Listen is the address for the other members; its port is not 0.
	Listen *net.TCPAddr
	// Clients is the address for processes that are no members and have the same key. They connect by TLS. Nil is
	// a port of loopback, for processes that sign in with NKey.
	Clients *net.TCPAddr
	// Members are the addresses of the others, as HOST:PORT.
	Members []string
	// TLS is for both ends of connections to members.
	TLS *tls.Config
	// NKey is the public key with which clients sign in, and Sign answers the server's challenge.
	NKey string
	Sign func(nonce []byte) ([]byte, error)
}

// join completes the options of a server.
func (c *Cluster) join(o *server.Options) {
	o.ServerName = c.Node
	o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT
	o.Nkeys = []*server.NkeyUser{{Nkey: c.NKey}}
	if c.Clients != nil {
		// A client has proved with its certificate that it has the key. It need not sign in, too.
		o.Host, o.Port, o.NoAuthUser = c.Clients.IP.String(), c.Clients.Port, c.NKey
		o.TLSConfig, o.TLSTimeout = c.TLS, routeHandshake.Seconds()
	}
	o.Cluster = server.ClusterOpts{
		Name: c.Name, Host: c.Listen.IP.String(), Port: c.Listen.Port, NoAdvertise: true,
		TLSConfig: c.TLS, TLSTimeout: routeHandshake.Seconds(), PingInterval: routePing, MaxPingsOut: routeMissed,
	}
	for _, member := range c.Members {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: member})
	}
}
