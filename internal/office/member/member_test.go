package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestAddress(t *testing.T) {
	for _, test := range []struct{ url, version, want, err string }{
		{"http://h", "", "http://h/socket.io/", ""},
		{"https://h/", "0.4.2", "https://h/socket.io/?a2c_version=0.4.2", ""},
		{"https://h/smcp", "", "https://h/smcp/", ""},
		{"http://h/socket.io/?a2c_version=0.4.2", "", "http://h/socket.io/?a2c_version=0.4.2", ""},
		{"h:80", "", "", "whole one"},
		{"ftp://h", "", "", "https://"},
		{"http://h", "four", "", "a2c_version"},
	} {
		got, err := address(test.url, test.version)
		if got != test.want || (test.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s %s: %q, %v", test.url, test.version, got, err)
		}
	}
}

func TestReadJoin(t *testing.T) {
	for ack, want := range map[string]string{
		`[]`: "", `[true,null]`: "", `[null]`: "", `[[true,null]]`: "", `[{"Ok":[true,null]}]`: "", `[{"Ok":null}]`: "",
		`[false,"no"]`: "no", `[[false,"no"]]`: "no", `[{"Ok":[false,"no"]}]`: "no", `[{"Err":"no"}]`: "no (500)",
		`[{"code":4101,"message":"taken"}]`: "taken (4101)", `[{"error":{"code":403,"message":"m"}}]`: "m (403)",
		`[false]`: "the hub refused without a reason", `["what"]`: `the hub answered what is no answer to a join: "what"`,
	} {
		var args []json.RawMessage
		if err := json.Unmarshal([]byte(ack), &args); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := readJoin(args); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ack, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&engineio.HandshakeError{Status: 403, Body: []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"not a name of this machine"}}`)}, "the hub refused the connection: not a name of this machine (HTTP 403)"},
		{&engineio.HandshakeError{Status: 503, Body: []byte(`{"code":3,"message":"Too many sessions"}`)}, "the hub refused the connection: Too many sessions (HTTP 503)"},
		{&engineio.HandshakeError{Status: 404, Body: []byte("404 page not found")}, "the hub refused the connection with HTTP 404; is this the URL of a hub?"},
		{&socketio.ConnectError{Message: "Connection refused by server"}, "the hub does not let this peer in (Connection refused by server): pass the token that its operator gave you"},
		{context.DeadlineExceeded, "the hub at http://h/x cannot be reached: no answer in time; is it running, and does a firewall let this machine through? (context deadline exceeded)"},
		{errors.New("refused"), "the hub at http://h/x cannot be reached: refused"},
	} {
		m := &Member{hub: hubName(&Options{URL: "http://user:secret@h/x?token=secret"})}
		if got := m.explain(test.err).Error(); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

// A hub that takes connections and never answers is named, with its URL and the cause, by each way to
// wait for it.
func TestSilentHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		defer network.Close()
		for name, wait := range map[string]func(context.Context, *Member) error{
			"Start": func(ctx context.Context, m *Member) error { return m.Start(ctx) },
			"Wait": func(ctx context.Context, m *Member) error {
				if err := m.StartInBackground(); err != nil {
					return err
				}
				return m.Wait(ctx)
			},
		} {
			m, err := New(Options{URL: "http://memory", Role: smcp.RoleAgent, Name: "lab", Office: "lab", Engine: engineio.ClientConfig{DialContext: network.DialContext}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err = wait(ctx, m)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the hub at http://memory cannot be reached: no answer in time") {
				t.Errorf("%s: %v", name, err)
			}
			_ = m.Close() // was never connected
		}
	})
}

// A refused version says what there is, on either transport.
func TestVersionRefused(t *testing.T) {
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()
	for _, transport := range []engineio.Transport{engineio.Polling, engineio.WebSocket} {
		m, err := New(Options{URL: server.URL, Role: smcp.RoleAgent, Name: "lab", Office: "lab", Version: "0.9.0", Engine: engineio.ClientConfig{Transports: []engineio.Transport{transport}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "0.1.0") || !strings.Contains(err.Error(), "0.9.0") {
			t.Errorf("%s: %v", transport, err)
		}
		_ = m.Close() // was never connected
	}
}

// A member is a peer that stays in its office.
func Example() {
	h := hub.New(hub.Options{}) // elsewhere, in life
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()

	m, err := New(Options{URL: server.URL, Role: smcp.RoleAgent, Name: "lab", Office: "lab"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	if err := m.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	state, _, _ := m.Status()
	fmt.Println(state, m.Office())
	// Output: joined lab
}
