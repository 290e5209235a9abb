package oauth

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestDevicePages has an authorization server send persons, and weir, to pages that are not for them.
func TestDevicePages(t *testing.T) {
	answer := func(page, complete string) map[string]any {
		return map[string]any{"device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": page, "verification_uri_complete": complete, "expires_in": 600}
	}
	const here = "https://id.example/enter"
	for name, c := range map[string]struct {
		device string // the endpoint
		answer map[string]any
		want   string
	}{
		"an http page":            {"https://id.example/device", answer("http://id.example/enter", ""), "verification_uri: "},
		"an http page, complete":  {"https://id.example/device", answer(here, "http://id.example/enter?c=1"), "verification_uri_complete: "},
		"this machine":            {"https://id.example/device", answer("https://localhost/enter", ""), "verification_uri: "},
		"this machine over http":  {"https://id.example/device", answer("http://127.0.0.1:8080/enter", ""), "verification_uri: "},
		"a private address":       {"https://id.example/device", answer("https://192.168.1.1/enter", ""), "verification_uri: "},
		"a script":                {"https://id.example/device", answer("javascript:alert(1)", ""), "verification_uri: "},
		"no page":                 {"https://id.example/device", answer("", ""), "verification_uri: "},
		"no code":                 {"https://id.example/device", map[string]any{"verification_uri": here}, "without a code"},
		"an endpoint over http":   {"http://id.example/device", nil, "device_authorization_endpoint"},
		"an endpoint at a router": {"https://192.168.1.1/device", nil, "device_authorization_endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			write := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
			asked := false
			mux := http.NewServeMux()
			mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
				write(w, map[string]any{"resource": "https://notes.example/mcp", "authorization_servers": []string{"https://id.example"}})
			})
			mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
				write(w, map[string]any{"issuer": "https://id.example", "token_endpoint": "https://id.example/token", "device_authorization_endpoint": c.device})
			})
			mux.HandleFunc("/device", func(w http.ResponseWriter, _ *http.Request) { asked = true; write(w, c.answer) })
			mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
			internet := httptest.NewTLSServer(mux)
			defer internet.Close()
			tls := internet.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			tls.InsecureSkipVerify = true // all hosts are one server here
			w := newWorld(t)
			w.client = New(Options{
				Store: w.store, Now: w.now, TLS: tls,
				Lookup: func(context.Context, string) ([]netip.Addr, error) {
					return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
				},
				Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, internet.Listener.Addr().String())
				},
			})
			s := &Server{Name: "notes", URL: "https://notes.example/mcp", Flow: FlowDevice, ClientID: "weir"}
			shown := false
			err := w.client.Device(t.Context(), s, "me", func(Code) error { shown = true; return context.Canceled })
			if shown || err == nil || !strings.Contains(err.Error(), c.want) || asked != (c.answer != nil) {
				t.Errorf("shown %v, asked %v: %v, want %q", shown, asked, err, c.want)
			}
		})
	}
}

// TestDevice has a person agree, and refuse, at another device.
func TestDevice(t *testing.T) {
	w := newWorld(t)
	show := func(agree bool) func(Code) error {
		return func(c Code) error {
			if c.User != "WDJB-MJHT" || !strings.HasSuffix(c.URL, "/enter") || c.Life != 10*time.Minute {
				t.Errorf("shown %+v", c)
			}
			w.idp.Agree(agree)
			return nil
		}
	}
	if err := w.client.Device(t.Context(), w.server, "me", show(false)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("err = %v", err)
	}
	if err := w.client.Device(t.Context(), w.server, "me", show(true)); err != nil {
		t.Fatal(err)
	}
	w.welcome("me")
	w.pass(50 * time.Minute)
	w.welcome("me")
}
