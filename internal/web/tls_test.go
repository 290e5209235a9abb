package web_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// certificate writes a certificate for 127.0.0.1 that signs itself, and its key.
func certificate(t *testing.T, dir, name, uri string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{u}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTLS serves over TLS, names a caller by its certificate, reads a new certificate, and has a door
// for this machine.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, "weir", "")
	agent := certificate(t, dir, "agent", "spiffe://example/agent")
	c, _, err := config.Parse(filepath.Join(dir, "weir.yaml"), []byte(`
listen: 127.0.0.1:0
tls: {cert: weir.pem, key: weir.key, client_ca: agent.pem}
auth: {roles: {auditor: {principals: ["cert:spiffe://example/agent"]}, operator: {principals: ["cert:spiffe://example/agent"]}}}
agents: {}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	l, err := web.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, at := range []*string{&c.TLS.Cert, &c.TLS.Key, &c.TLS.ClientCA} {
		*at = filepath.Join(dir, filepath.Base(*at))
	}
	if err := l.Secure(t.Context(), c.TLS, log); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(t.Context(), c, gateway.Options{Version: "test", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context())
	server := web.New(g, c, l, api.Machine{}, log)
	server.Start()
	defer func() {
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	path := "/whoami"
	get := func(base string, o *tls.Config) (int, string, *x509.Certificate) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: o, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
		resp, err := client.Get(base + path)
		if err != nil {
			return 0, err.Error(), nil
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.TLS == nil {
			return resp.StatusCode, string(body), nil
		}
		if resp.ProtoMajor != 2 {
			t.Errorf("%s over TLS is %s", path, resp.Proto)
		}
		return resp.StatusCode, string(body), resp.TLS.PeerCertificates[0]
	}
	trusting := func(certs ...tls.Certificate) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, Certificates: certs} //nolint:gosec // the test compares what is shown
	}
	status, body, before := get(l.URL(), trusting(agent))
	if status != 200 || !strings.Contains(body, `"principal":"cert:spiffe://example/agent"`) || !strings.Contains(body, `"roles":["auditor","operator"]`) {
		t.Errorf("with a certificate: %d %s", status, body)
	}
	if status, body, _ := get(l.URL(), trusting()); status != 401 {
		t.Errorf("without a certificate: %d %s", status, body)
	}
	if status, body, _ := get(l.URL(), trusting(certificate(t, t.TempDir(), "stranger", ""))); status == 200 {
		t.Errorf("with a foreign certificate: %d %s", status, body)
	}
	path = "/api/v1/servers"
	if status, body, _ := get(l.URL(), trusting(agent)); status != 200 || !strings.Contains(body, `"servers"`) {
		t.Errorf("the operator's path with the certificate of an operator: %d %s", status, body)
	}
	if status, body, _ := get(l.URL(), trusting()); status != 401 {
		t.Errorf("the operator's path without a certificate: %d %s", status, body)
	}
	path = "/whoami"
	old := trusting()
	old.MaxVersion = tls.VersionTLS11
	if status, _, _ := get(l.URL(), old); status != 0 {
		t.Errorf("TLS 1.1: %d", status)
	}
	if status, _, _ := get(l.Local(), nil); status != 401 || !strings.HasPrefix(l.Local(), "http://127.0.0.1:") {
		t.Errorf("the door %s: %d", l.Local(), status)
	}
	certificate(t, dir, "weir", "")
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, _, now := get(l.URL(), trusting())
		if now != nil && !now.Equal(before) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not served")
		}
	}
}
