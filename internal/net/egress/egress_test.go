package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/weir-mcp/weir/internal/net/egress"
)

// TestCheck tells URLs that may be asked from others, with and without secrets, for parties on the
// internet, in a private network and on this machine.
func TestCheck(t *testing.T) {
	const public, private, here = "https://a.example/mcp", "https://192.168.1.7/mcp", "http://localhost:8080/mcp"
	for _, c := range []struct {
		party, at    string
		get, secrets bool // whether it may be asked
	}{
		{public, "https://b.example/x", true, true},
		{public, "http://b.example/x", false, false},
		{public, "https://10.0.0.1/", false, false},
		{public, "https://localhost/", false, false},
		{public, "https://u:p@b.example/", false, false},
		{public, "ftp://b.example/", false, false},
		{public, "https:///x", false, false},
		{public, "https://configured.intern/", true, true},
		{public, "http://10.9.9.9:8080/", true, false}, // of the configuration
		{private, "https://10.0.0.1/", true, true},
		{private, "https://127.0.0.1/", false, false},
		{private, "http://10.0.0.1/", false, false},
		{here, "http://127.0.0.1:9000/", true, true},
		{here, "http://b.example/", false, false},
	} {
		u, err := url.Parse(c.at)
		if err != nil {
			t.Fatal(err)
		}
		z := egress.Network{}.Zone(c.party, "https://configured.intern/t", "http://10.9.9.9:8080/y")
		for _, secret := range []bool{false, true} {
			want := c.get
			if secret {
				want = c.secrets
			}
			if err := z.Check(u, secret); (err == nil) != want || err != nil && !egress.Refused(err) {
				t.Errorf("%s names %s, with secrets %v: %v", c.party, c.at, secret, err)
			}
		}
	}
}

// TestTransport resolves a name to an address that no party may name, and to one that the owner of the
// configured name may have.
func TestTransport(t *testing.T) {
	dialed := ""
	n := egress.Network{
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		},
		Dial: func(_ context.Context, _, at string) (net.Conn, error) {
			dialed = at
			return nil, net.ErrClosed
		},
	}
	z := n.Zone("https://a.example/mcp")
	for at, want := range map[string]string{"https://b.example/": "", "https://a.example/x": "10.0.0.1:443"} {
		dialed = ""
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := z.Transport().RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		if dialed != want || egress.Refused(err) != (want == "") || errors.Is(err, net.ErrClosed) != (want != "") {
			t.Errorf("%s: dialed %q, %v", at, dialed, err)
		}
	}
}
