package natsstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
)

// member returns the options of a client whose servers may be members of its node's cluster. They ask for TLS, so the
// client uses it whether the URL says so or not.
func member(node *tls.Config) []nats.Option {
	d := &lastDialed{}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := node.GetClientCertificate(asked)
			if err != nil || asked.SupportsCertificate(cert) != nil {
				return &tls.Certificate{}, err // a server of another authority
			}
			return cert, nil
		},
		InsecureSkipVerify: true, // VerifyConnection checks the chain, by one of two authorities
		VerifyConnection: func(s tls.ConnectionState) error {
			err := node.VerifyConnection(s)
			if err == nil || len(s.PeerCertificates) == 0 {
				return err
			}
			between := x509.NewCertPool()
			for _, cert := range s.PeerCertificates[1:] {
				between.AddCert(cert)
			}
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: cmp.Or(s.ServerName, d.host()), Intermediates: between})
			return err
		},
	}
	return []nats.Option{nats.SetCustomDialer(d), func(o *nats.Options) error { o.TLSConfig = config; return nil }}
}

// lastDialed dials, and remembers the host of the last attempt. A connection of the library makes one attempt at a time.
// The state of a TLS connection does not tell a host that is an address.
type lastDialed struct {
	mu   sync.Mutex // guards below
	last string
}

var _ nats.CustomDialer = (*lastDialed)(nil)

// Dial implements nats.CustomDialer.
func (d *lastDialed) Dial(network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.last = host
	d.mu.Unlock()
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(context.Background(), network, address)
}

// host is never empty, so a certificate is checked for a host in any case.
func (d *lastDialed) host() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.last, "unknown.invalid")
}
