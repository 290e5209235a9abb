package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/setup/service"
)

// certificateFor writes a certificate that signs itself, and its key, into a folder: weir.pem and
// weir.key.
func certificateFor(t *testing.T, dir, host string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"weir.pem": {Type: "CERTIFICATE", Bytes: der}, "weir.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const overTLS = `
tls: {cert: weir.pem, key: weir.key}
public_url: https://weir.example:8443
mcpServers: {fake: {command: "%FAKE%"}}
`

// TestCommandsWithTLS: commands of this machine and weir attach find a gateway with TLS and need no
// certificate authority; with tokens they need one, except weir attach.
func TestCommandsWithTLS(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]string{"": "", "t0ken": fmt.Sprintf("auth: {tokens: [{name: ann, sha256: %x}]}\n", sha256.Sum256([]byte("t0ken")))} {
		t.Run("token "+name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			path := writeConfig(t, "weir.yaml", auth+overTLS)
			dir := filepath.Dir(path)
			certificateFor(t, dir, "weir.example")
			s := startWith(t, []string{"XDG_STATE_HOME=" + state, "WEIR_TOKEN=" + name}, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
			run := func(args ...string) finished {
				t.Helper()
				return weir(t, append([]string{"@" + dir, "XDG_STATE_HOME=" + state, "WEIR_TOKEN=" + name}, args...)...)
			}
			run("trust", "--yes", path).want(t, exitOK)
			run("restart", "fake").want(t, exitOK, "✓ fake") // it waits until the server is listed
			run("ls").want(t, exitOK, "fake", "ready")
			run("logs").want(t, exitOK)
			run("whoami").want(t, exitOK, map[string]string{"": "local", "t0ken": "ann"}[name])
			run("stats").want(t, exitOK)
			run("doctor", "fake").want(t, exitOK, "15 tools")
			if out := run("doctor"); !strings.Contains(out.stdout, s.url) {
				t.Errorf("doctor did not ask the gateway at %s: %s", s.url, out.stdout)
			}
			session := attachSDK(t, state, path)
			echoOver(t, session)
			if record := recordOf(t, state); record.URL != s.url || !strings.HasPrefix(record.URL, "http://127.0.0.1:") {
				t.Errorf("the record names %s, the gateway %s", record.URL, s.url)
			}
		})
	}
}

// TestGatewayOfAnotherUserWithTLS: without a record, a certificate for another name is no reason to
// start the servers a second time.
func TestGatewayOfAnotherUserWithTLS(t *testing.T) {
	t.Parallel()
	at := freeAddress(t)
	path := writeConfig(t, "weir.yaml", "listen: "+at+"\n"+overTLS)
	dir := filepath.Dir(path)
	certificateFor(t, dir, "weir.example")
	startWith(t, []string{"XDG_STATE_HOME=" + t.TempDir()}, path, "serve", "--config", path)
	weir(t, "trust", "--yes", path).want(t, exitOK)
	weir(t, "@"+dir, "ls").want(t, exitUnavailable, "https://"+at+"/mcp", "--url https://weir.example:8443/mcp")
}

// TestServiceURL is the URL that clients and people are told.
func TestServiceURL(t *testing.T) {
	for _, tt := range []struct {
		text string
		port int
		want string
		free bool
	}{
		{"", 0, "http://127.0.0.1:8088/mcp", true},
		{"listen: 127.0.0.1:9000", 0, "http://127.0.0.1:9000/mcp", true},
		{"", 9001, "http://127.0.0.1:9001/mcp", true},
		{"listen: 127.0.0.1:0", 0, "", true},
		{"tls: {cert: a, key: b}", 0, "https://127.0.0.1:8088/mcp", false},
		{"tls: {cert: a, key: b}", 9001, "https://127.0.0.1:9001/mcp", false},
		{"tls: {cert: a, key: b}\npublic_url: https://weir.example/x/", 9001, "https://weir.example/x/mcp", false},
		{"tls: {cert: a, key: b, client_ca: c}", 0, "https://127.0.0.1:8088/mcp", false},
		{"public_url: http://127.0.0.1:8088\nauth: {issuers: {corp: {issuer: \"https://a\"}}}", 0, "http://127.0.0.1:8088/mcp", false},
		{"oops: 1", 0, "", false},
		{"oops: 1", 9001, "http://127.0.0.1:9001/mcp", false},
	} {
		path := writeConfig(t, "weir.yaml", "agents: {}\n"+tt.text)
		if got := serviceURL(service.Settings{Config: path, Port: tt.port}); got != tt.want {
			t.Errorf("%s, port %d: %s, want %s", tt.text, tt.port, got, tt.want)
		}
		if got := opensFreely(path); got != tt.free {
			t.Errorf("%s: opens freely: %v", tt.text, got)
		}
	}
}
