package address_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func list(t testing.TB, entries ...string) address.List {
	t.Helper()
	l, err := address.NewList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// resolver answers from a table, and counts what it was asked.
type resolver struct {
	names map[string]string // addresses, separated by spaces
	asked int
}

func (r *resolver) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	r.asked++
	var found []netip.Addr
	for _, text := range strings.Fields(r.names[host]) {
		found = append(found, netip.MustParseAddr(text))
	}
	return found, nil
}

func TestList(t *testing.T) {
	l := list(t, "Agents.example.com", "10.0.0.7", "10.0.0.8:7000", "[fd12::1]:80", "fd12::2", "[fd12::3]")
	for server, want := range map[string]bool{
		"agents.EXAMPLE.com:1": true, "10.0.0.7:9": true, "[::ffff:10.0.0.7]:9": true, "10.0.0.8:7000": true, "[fd12::1]:80": true, "[fd12::2]:1": true, "[fd12:0::3]:1": true,
		"example.com:1": false, "x.agents.example.com:1": false, "10.0.0.8:7001": false, "[fd12::1]:81": false, "10.0.0.70:9": false,
	} {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Has(host, port); got != want {
			t.Errorf("%s: %v", server, got)
		}
	}
	if got := l.Names(); len(got) != 6 || !slices.IsSorted(got) {
		t.Errorf("names %q", got)
	}
	for _, entry := range []string{"", "http://x", "x/", "*", "*.example.com", "10.0.0.0/8", "x:0", "x:http", "x:65536", "a b", "u@x", "fe80::1%eth0", "[::1"} {
		if _, err := address.NewList([]string{entry}); err == nil {
			t.Errorf("%q was taken", entry)
		}
	}
	if (address.List{}).Has("x", "80") {
		t.Error("the empty list has something")
	}
}

func TestServer(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Example.com/x": "example.com:80", "https://example.com": "example.com:443", "http://[::1]:8088/": "[::1]:8088", "http://[0:0::1]/": "[::1]:80",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := address.Server(u); got != want {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

// None of these may be connected to, whoever names them and whatever is listed.
func TestNever(t *testing.T) {
	never := []string{
		"169.254.169.254", "169.254.170.2", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16",
		"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1",
		"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "64:ff9b::7f00:1", "2002:7f00:1::", "::ffff:0.0.0.0",
	}
	for _, text := range never {
		ip := netip.MustParseAddr(text)
		names := &resolver{names: map[string]string{"x.example.com": text}}
		allow := []string{"x.example.com"}
		if ip.Zone() == "" {
			allow = append(allow, text)
		}
		for _, from := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.1"), ip} {
			d := address.Dialer{
				Rule:   address.Rule{From: from, Allow: list(t, allow...), Private: address.AnyPrivate()},
				Lookup: names.lookup,
				Dial: func(context.Context, string, string) (net.Conn, error) {
					t.Errorf("%s was connected to", text)
					return nil, errors.New("reached")
				},
			}
			for _, host := range []string{text, "x.example.com"} {
				if _, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "80")); !errors.Is(err, address.ErrRefused) {
					t.Errorf("%s as %s from %v: %v", text, host, from, err)
				}
			}
		}
	}
}

// A peer names itself, and what the operator has listed.
func TestRule(t *testing.T) {
	names := map[string]string{
		"localhost": "127.0.0.1 ::1", "self.lan": "10.0.0.7", "other.lan": "10.0.0.8", "both.lan": "10.0.0.8 10.0.0.7", "rebound.lan": "127.0.0.1",
		"public.example.com": "93.184.216.34", "mixed.example.com": "93.184.216.34 127.0.0.1", "nowhere.lan": "",
	}
	for _, c := range []struct {
		from, allow, private, server string
		want                         string // addresses; "" for a refusal
	}{
		{"10.0.0.7", "", "", "10.0.0.7:7000", "10.0.0.7"},
		{"10.0.0.7", "", "", "[::ffff:10.0.0.7]:7000", "10.0.0.7"},
		{"::ffff:10.0.0.7", "", "", "10.0.0.7:1", "10.0.0.7"},
		{"10.0.0.7", "", "", "self.lan:7000", "10.0.0.7"},
		{"10.0.0.7", "", "", "both.lan:7000", "10.0.0.7"},
		{"10.0.0.7", "", "", "other.lan:7000", ""},
		{"10.0.0.7", "", "", "10.0.0.8:7000", ""},
		{"10.0.0.7", "", "", "localhost:7000", ""},
		{"10.0.0.7", "", "", "127.0.0.1:7000", ""},
		{"10.0.0.7", "", "", "rebound.lan:7000", ""},
		{"10.0.0.7", "", "", "public.example.com:443", ""},
		{"10.0.0.7", "10.0.0.8", "", "10.0.0.8:7000", "10.0.0.8"},
		{"10.0.0.7", "10.0.0.8:7000", "", "10.0.0.8:7001", ""},
		{"10.0.0.7", "other.lan", "10.0.0.0/8", "other.lan:1", "10.0.0.8"},
		{"10.0.0.7", "other.lan", "", "other.lan:1", ""},
		{"10.0.0.7", "rebound.lan", "0.0.0.0/0", "rebound.lan:1", ""},
		{"10.0.0.7", "mixed.example.com", "", "mixed.example.com:443", ""},
		{"10.0.0.7", "public.example.com", "", "public.example.com:443", "93.184.216.34"},
		{"127.0.0.1", "", "", "127.0.0.1:7000", "127.0.0.1"},
		{"127.0.0.1", "", "", "[::1]:7000", "::1"},
		{"127.0.0.1", "", "", "localhost:7000", "127.0.0.1 ::1"},
		{"::1", "", "", "localhost:7000", "127.0.0.1 ::1"},
		{"127.0.0.1", "", "", "10.0.0.7:7000", ""},
		{"127.0.0.1", "rebound.lan", "", "rebound.lan:7000", "127.0.0.1"},
		{"", "", "", "127.0.0.1:7000", ""},
		{"", "", "", "self.lan:7000", ""},
		{"", "127.0.0.1", "", "127.0.0.1:7000", "127.0.0.1"},
		{"", "localhost", "", "localhost:7000", "127.0.0.1 ::1"},
		{"", "rebound.lan", "", "rebound.lan:7000", ""},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			r := &resolver{names: names}
			var dialed []string
			d := address.Dialer{Rule: address.Rule{Allow: list(t, strings.Fields(c.allow)...)}, Lookup: r.lookup,
				Dial: func(_ context.Context, _, server string) (net.Conn, error) {
					dialed = append(dialed, server)
					return nil, errors.New("nobody there")
				}}
			if c.from != "" {
				d.Rule.From = netip.MustParseAddr(c.from)
			}
			if c.private != "" {
				d.Rule.Private = []netip.Prefix{netip.MustParsePrefix(c.private)}
			}
			_, err := d.DialContext(t.Context(), "tcp", c.server)
			if errors.Is(err, address.ErrRefused) != (c.want == "") {
				t.Fatalf("got %v", err)
			}
			_, port, _ := net.SplitHostPort(c.server)
			var want []string
			for _, ip := range strings.Fields(c.want) {
				want = append(want, net.JoinHostPort(ip, port))
			}
			if !slices.Equal(dialed, want) {
				t.Errorf("connected to %q, want %q", dialed, want)
			}
			if r.asked > 1 {
				t.Errorf("the resolver was asked %d times", r.asked)
			}
		})
	}
	d := address.Dialer{Rule: address.Rule{Allow: list(t, "nowhere.lan")}, Lookup: (&resolver{names: names}).lookup}
	if _, err := d.DialContext(t.Context(), "tcp", "nowhere.lan:1"); err == nil || errors.Is(err, address.ErrRefused) {
		t.Errorf("a name without address: %v", err)
	}
	if _, err := d.DialContext(t.Context(), "tcp", "nowhere.lan"); !errors.Is(err, address.ErrRefused) {
		t.Errorf("no port: %v", err)
	}
}

// A name that leads elsewhere a moment later does not take the connection along.
func TestRebinding(t *testing.T) {
	answers := []string{"10.0.0.7", "127.0.0.1", "127.0.0.1"}
	var dialed []string
	d := address.Dialer{
		Rule: address.Rule{From: netip.MustParseAddr("10.0.0.7")},
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			next := netip.MustParseAddr(answers[0])
			answers = answers[1:]
			return []netip.Addr{next}, nil
		},
		Dial: func(_ context.Context, _, server string) (net.Conn, error) {
			dialed = append(dialed, server)
			return nil, errors.New("nobody there")
		},
	}
	for range 2 {
		_, _ = d.DialContext(t.Context(), "tcp", "agent.lan:7000")
	}
	if !slices.Equal(dialed, []string{"10.0.0.7:7000"}) {
		t.Errorf("connected to %q", dialed)
	}
}

// An agent on this machine is reached, and what it names elsewhere is not.
func ExampleDialer() {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer agent.Close()
	d := &address.Dialer{Rule: address.Rule{From: netip.MustParseAddr("127.0.0.1")}}
	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	defer client.CloseIdleConnections()

	resp, err := client.Get(agent.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	_, err = client.Get("http://169.254.169.254/latest/meta-data/iam")
	fmt.Println(errors.Is(err, address.ErrRefused))
	// Output:
	// 200 OK
	// true
}
