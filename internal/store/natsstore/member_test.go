package natsstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/clusterkey"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

// nodeWith is the TLS configuration of a node with a key of one byte, again and again.
func nodeWith(t *testing.T, b byte) *tls.Config {
	t.Helper()
	key, err := clusterkey.Parse(strings.Repeat(hex.EncodeToString([]byte{b}), 32))
	if err != nil {
		t.Fatal(err)
	}
	return clusterkey.NewAuthority("joiner", key, nil, nil).TLS()
}

// TestJoinMembers: a process with the key of a cluster uses its servers as a member does. Clients without the key, with
// another one, or without TLS get nothing there but the server's greeting.
func TestJoinMembers(t *testing.T) {
	t.Parallel()
	clients, err := proctest.FreeAddresses(3)
	if err != nil {
		t.Fatal(err)
	}
	docs := replicated(t, threeFor(t, clients))
	urls := []string{"nats://" + clients[0], "nats://" + clients[1], "nats://" + clients[2]}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := natsstore.Dial(ctx, natsstore.Servers{URLs: urls, Member: nodeWith(t, 7)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	joined, found, err := natsstore.Open(ctx, conn, natsstore.Options{Bucket: "weir_weir", Changes: "weir.weir.d", MaxBytes: 64 << 20, Patience: 20 * time.Second})
	if err != nil || !found {
		t.Fatal(found, err)
	}
	defer joined.Close()
	if _, err := joined.Set(ctx, "joined", []byte("x"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if doc, err := docs[1].Get(ctx, "joined"); err != nil || string(doc.Value) != "x" {
		t.Errorf("at a member: %+v, %v", doc, err)
	}
	for name, s := range map[string]natsstore.Servers{
		"a stranger":  {URLs: urls[:1]},
		"another key": {URLs: urls[:1], Member: nodeWith(t, 8)},
	} {
		if conn, err := natsstore.Dial(ctx, s); err == nil {
			conn.Close()
			t.Errorf("%s is let in", name)
		}
	}
	// The server trusts the certificate, not the client's checks.
	blind := &tls.Config{InsecureSkipVerify: true}
	for name, config := range map[string]*tls.Config{"no certificate": blind, "a certificate of another key": {InsecureSkipVerify: true, GetClientCertificate: nodeWith(t, 8).GetClientCertificate}} {
		if answer := speaks(t, clients[0], config); strings.Contains(answer, "PONG") {
			t.Errorf("%s: %q", name, answer)
		}
	}
	if answer := speaks(t, clients[0], nil); strings.Contains(answer, "PONG") {
		t.Errorf("without TLS: %q", answer)
	}
	if answer := speaks(t, clients[0], &tls.Config{InsecureSkipVerify: true, GetClientCertificate: nodeWith(t, 7).GetClientCertificate}); !strings.Contains(answer, "PONG") {
		t.Errorf("with the key: %q", answer)
	}
}

// speaks asks a server for a sign of life, by TLS if config is not nil, and returns all that the server says after its
// greeting.
func speaks(t *testing.T, at string, config *tls.Config) (answer string) {
	t.Helper()
	raw, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
	// The greeting comes before TLS, so no byte of the handshake may be read with it.
	for one := make([]byte, 1); one[0] != '\n'; {
		if _, err := raw.Read(one); err != nil {
			t.Fatal(err)
		}
	}
	conn := raw
	if config != nil {
		conn = tls.Client(raw, config)
	}
	if _, err := conn.Write([]byte("CONNECT {\"verbose\":false}\r\nPING\r\n")); err != nil {
		return err.Error()
	}
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		answer += line
		if err != nil || strings.Contains(line, "PONG") {
			return answer
		}
	}
}
