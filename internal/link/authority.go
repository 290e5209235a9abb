package link

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"
)

const (
	// lifetime is how long a node's certificate lasts. A node issues the next one when half of it is
	// over, so connections may be as old as the other half.
	lifetime = 7 * 24 * time.Hour
	// skew is how far clocks of nodes may differ.
	skew = time.Hour
)

// Authority issues the certificates of one node and checks the certificates of others. It is safe for
// concurrent use.
type Authority struct {
	key  *Key
	node string
	now  func() time.Time
	pool *x509.CertPool

	mu    sync.Mutex // guards below
	cert  *tls.Certificate
	renew time.Time
}

// NewAuthority returns the authority of a node. It trusts nodes with the key or with one of the old
// keys. A nil now is time.Now.
func NewAuthority(node string, key *Key, old []*Key, now func() time.Time) *Authority {
	if now == nil {
		now = time.Now
	}
	a := &Authority{key: key, node: node, now: now, pool: x509.NewCertPool()}
	a.pool.AddCert(key.cert)
	for _, k := range old {
		a.pool.AddCert(k.cert)
	}
	return a
}

// TLS returns a configuration for both ends of a connection between nodes. Each end shows a
// certificate and checks the other's. A node is known by the key, not by the host of its address:
// dialers need no server name. The caller may change the configuration.
func (a *Authority) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		Time:                 a.now,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.certificate() },
		ClientAuth:           tls.RequireAnyClientCert,
		InsecureSkipVerify:   true, // VerifyConnection checks the chain, at both ends and when a connection is resumed
		VerifyConnection:     a.verify,
	}
}

// verify checks the certificate of the other end.
func (a *Authority) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the other end shows no certificate of a node")
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: a.pool, CurrentTime: a.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return fmt.Errorf("the other end has another cluster.key, or a clock that is over an hour away: %w", err)
	}
	return nil
}

// NodeName returns the name of the node at the other end of a connection.
func NodeName(s *tls.ConnectionState) string {
	if s == nil || len(s.PeerCertificates) == 0 {
		return ""
	}
	return s.PeerCertificates[0].Subject.CommonName
}

// certificate returns the certificate of the node, a new one from time to time.
func (a *Authority) certificate() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.cert != nil && now.Before(a.renew) {
		return a.cert, nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(2)), Subject: pkix.Name{CommonName: a.node},
		NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime + skew),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.key.cert, public, a.key.signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a.cert, a.renew = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, now.Add(lifetime/2)
	return a.cert, nil
}
