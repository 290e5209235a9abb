package link_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/link"
)

func key(t *testing.T, fill byte) *link.Key {
	t.Helper()
	k, err := link.Parse(hex.EncodeToString(bytes.Repeat([]byte{fill}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestParse: one key in every form is one key, and errors keep the secret.
func TestParse(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb, 0xef}, 16)
	var first *link.Key
	for _, text := range []string{hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw),
		base64.RawStdEncoding.EncodeToString(raw), " " + base64.RawURLEncoding.EncodeToString(raw) + "\n"} {
		k, err := link.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = k
		}
		if !opens(first, k) {
			t.Errorf("%s is another key", text)
		}
	}
	if opens(key(t, 1), key(t, 2)) {
		t.Error("two keys are one")
	}
	for _, text := range []string{"", "secret", strings.Repeat("ab", 31), strings.Repeat("secret", 8)} {
		if _, err := link.Parse(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if !opens(key(t, 1), key(t, 1)) {
		t.Error("another node does not open what one has sealed")
	}
}

// opens reports whether a key opens what another one has sealed.
func opens(key, sealer *link.Key) bool {
	plain, ok := key.Seal().Open("x", sealer.Seal().Seal("x", []byte("plain"), nil), nil)
	return ok && string(plain) == "plain"
}

// meet lets two nodes shake hands, and returns whom the listener has met.
func meet(t *testing.T, dialer, listener *tls.Config) (node string, err error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", listener)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	met := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			if err = conn.(*tls.Conn).Handshake(); err == nil {
				state := conn.(*tls.Conn).ConnectionState()
				node = link.NodeName(&state)
				_, err = conn.Write([]byte("x"))
			}
		}
		met <- err
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = tls.Client(conn, dialer).Read(make([]byte, 1))
	conn.Close()
	err = errors.Join(err, <-met)
	return node, err
}

// TestTLS: nodes with one key trust one another, with old keys too, and no others.
func TestTLS(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	one, two := key(t, 1), key(t, 2)
	a := link.NewAuthority("a", one, nil, clock)
	b := link.NewAuthority("b", one, []*link.Key{two}, clock)
	moved := link.NewAuthority("c", two, []*link.Key{one}, clock)
	stranger := link.NewAuthority("d", key(t, 3), nil, clock)

	if node, err := meet(t, a.TLS(), b.TLS()); err != nil || node != "a" {
		t.Errorf("%q, %v", node, err)
	}
	for range 2 { // both ways, while the key of a cluster changes
		if _, err := meet(t, b.TLS(), moved.TLS()); err != nil {
			t.Error(err)
		}
		if _, err := meet(t, moved.TLS(), b.TLS()); err != nil {
			t.Error(err)
		}
	}
	for what, pair := range map[string][2]*tls.Config{
		"another key":             {stranger.TLS(), a.TLS()},
		"to another key":          {a.TLS(), stranger.TLS()},
		"a key that is not known": {moved.TLS(), a.TLS()},
		"no certificate":          {&tls.Config{InsecureSkipVerify: true}, a.TLS()},
	} {
		if node, err := meet(t, pair[0], pair[1]); err == nil {
			t.Errorf("%s is trusted as %q", what, node)
		}
	}
	old := a.TLS()
	if _, err := meet(t, old, b.TLS()); err != nil {
		t.Error(err)
	}
	now = now.Add(365 * 24 * time.Hour)
	if _, err := meet(t, old, b.TLS()); err != nil {
		t.Errorf("after a year without a restart: %v", err)
	}
}
