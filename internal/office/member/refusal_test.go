package member

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

func TestLasting(t *testing.T) {
	join := func(err error) error { return fmt.Errorf("later: %w", joinRefusal{err}) }
	for _, test := range []struct {
		err   error
		is    bool
		after time.Duration
	}{
		{&engineio.HandshakeError{Status: 401}, true, 0},
		{&engineio.HandshakeError{Status: 404}, true, 0},
		{&engineio.HandshakeError{Status: 400}, true, 0},
		{&engineio.HandshakeError{Status: 429}, false, 0},
		{&engineio.HandshakeError{Status: 503}, false, 0},
		{&socketio.ConnectError{Message: "Connection refused by server"}, true, 0},
		{fmt.Errorf("dial: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), true, 0},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, true, 0},
		{errors.New("connection refused"), false, 0},
		{context.DeadlineExceeded, false, 0},
		{join(errors.New("The token 'desk' does not allow to join office 'x' as computer")), true, 0},
		{join(errors.New("The name 'desk' is bound to a key; the join has no proof of it")), true, 0},
		{join(errors.New("Internal server error: Computer with name 'desk' already exists in room 'x'")), true, takenTime},
		{join(errors.New("Internal server error: Agent already in room")), true, takenTime},
		{join(errors.New("Agent sid should equal office_id")), true, takenTime},
		{join(errors.New("Office 'x' has 256 Computers, which is the bound")), false, 0},
		{join(&smcp.Error{Code: smcp.CodeForbidden, Message: "no"}), true, 0},
		{join(a2c.ErrRoomTaken), true, takenTime},
		{join(a2c.ErrInternal), false, 0},
		{join(smcp.Errorf(smcp.CodeBusy, "busy")), false, 0},
	} {
		if is, after := lasting(test.err); is != test.is || after != test.after {
			t.Errorf("%v: %v after %s, want %v after %s", test.err, is, after, test.is, test.after)
		}
	}
}

// lines keeps the warnings of a log.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	warn []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warn = append(l.warn, text)
	return nil
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.warn
	l.warn = nil
	return out
}

// A peer that is refused goes on trying, and says why every few minutes.
func TestRefusalIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum := sha256.Sum256([]byte("good"))
		token := hub.Token{Name: "good", SHA256: hex.EncodeToString(sum[:])}
		h := hub.New(hub.Options{Auth: hub.Static{Tokens: []hub.Token{token}}})
		network := memnet.New()
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(network)
		}()
		defer func() {
			_ = h.Shutdown(context.Background())
			_ = server.Close()
			<-served
		}()
		peer := func(token, name string, refused func(error)) (*Member, *lines) {
			log := &lines{}
			m, err := New(Options{
				URL: "http://memory", Role: smcp.RoleComputer, Name: name, Office: "lab", Token: token, Logger: slog.New(log), OnRefused: refused,
				Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: network.DialContext},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.Close() })
			if err := m.StartInBackground(); err != nil {
				t.Fatal(err)
			}
			return m, log
		}
		var mu sync.Mutex
		first := map[string]time.Duration{}
		began := time.Now()
		noting := func(what string) func(error) {
			return func(error) {
				mu.Lock()
				defer mu.Unlock()
				if _, known := first[what]; !known {
					first[what] = time.Since(began)
				}
			}
		}
		stranger, heard := peer("bad", "stranger", noting("stranger"))
		holder, _ := peer("good", "desk", nil)
		if err := holder.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		second, taken := peer("good", "desk", noting("taken"))
		time.Sleep(time.Hour)
		for what, log := range map[string]*lines{"pass the token": heard, "already exists": taken} {
			got := log.take()
			if len(got) < 11 || len(got) > 13 {
				t.Errorf("%d lines in an hour: %q", len(got), got)
			}
			for _, line := range got {
				if !strings.Contains(line, what) || strings.Contains(line, "bad") {
					t.Errorf("%q does not say %q, or says the token", line, what)
				}
			}
		}
		if state, _, err := stranger.Status(); state != Connecting || err == nil {
			t.Errorf("the stranger is %s: %v", state, err)
		}
		mu.Lock()
		if first["stranger"] > time.Second || first["taken"] < takenTime || first["taken"] > takenTime+2*maxJoinRetry {
			t.Errorf("certain after %v", first)
		}
		mu.Unlock()

		// The place is free: it goes on by itself, and the next refusal is told anew.
		_ = holder.Close()
		if err := second.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := taken.take(); len(got) != 0 {
			t.Errorf("told after it has joined: %q", got)
		}
		h.SetAccess(hub.Static{Tokens: []hub.Token{{Name: "other", SHA256: strings.Repeat("0", 64)}}}, nil)
		time.Sleep(time.Minute)
		if got := taken.take(); len(got) != 1 {
			t.Errorf("put out for good: %q", got)
		}
	})
}
