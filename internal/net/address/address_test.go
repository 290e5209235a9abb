package address_test

import (
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/weir-mcp/weir/internal/net/address"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "localhost.": true, "weir.localhost": true, "weir.localhost.": true,
		"127.0.0.1": true, "127.255.3.4": true, "::1": true, "[::1]": true, "::ffff:127.0.0.1": true, "[::ffff:7f00:1]": true,
		"": false, ".": false, "localhost.example.com": false, "notlocalhost": false, "127.0.0.1.example.com": false,
		"0.0.0.0": false, "::": false, "[::": false, "::1]": false, "10.0.0.1": false, "127.1": false, "2130706433": false, "0x7f000001": false,
		"64:ff9b::7f00:1": false, "::127.0.0.1": false, "169.254.1.1": false,
	} {
		if got := address.Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %v", host, got)
		}
	}
}

func TestLoopbackAddr(t *testing.T) {
	for _, c := range []struct {
		addr net.Addr
		want bool
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, true},
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, true},
		{&net.TCPAddr{IP: net.IPv4zero, Port: 1}, false},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, false},
		{&net.UnixAddr{Name: "/run/x.sock", Net: "unix"}, false},
		{nil, false},
	} {
		if got := address.LoopbackAddr(c.addr); got != c.want {
			t.Errorf("%v: %v", c.addr, got)
		}
	}
}

// A request that a proxy has sent on does not come from the proxy's address.
func TestSource(t *testing.T) {
	for _, c := range []struct {
		remote, header, want string
		ok                   bool
	}{
		{"127.0.0.1:4711", "", "127.0.0.1", true},
		{"[::ffff:10.0.0.7]:4711", "", "10.0.0.7", true},
		{"[fe80::1%eth0]:4711", "", "fe80::1%eth0", true},
		{"127.0.0.1:4711", "X-Forwarded-For", "", false},
		{"127.0.0.1:4711", "X-Forwarded-Host", "", false},
		{"127.0.0.1:4711", "X-Real-Ip", "", false},
		{"127.0.0.1:4711", "Forwarded", "", false},
		{"127.0.0.1:4711", "Via", "", false},
		{"pipe", "", "", false},
		{"", "", "", false},
	} {
		h := http.Header{}
		if c.header != "" {
			h.Set(c.header, "")
		}
		ip, ok := address.Source(h, c.remote)
		if ok != c.ok || ok && ip != netip.MustParseAddr(c.want) {
			t.Errorf("%q with %q: %v, %v", c.remote, c.header, ip, ok)
		}
	}
}

func TestPrivate(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": false, "2606:2800:220:1::1": false, "::ffff:93.184.216.34": false, "64:ff9b::5db8:d822": false,
		"127.0.0.1": true, "10.0.0.1": true, "172.16.0.1": true, "192.168.0.1": true, "100.64.0.1": true, "169.254.0.1": true, "0.0.0.0": true,
		"198.18.0.1": true, "224.0.0.1": true, "255.255.255.255": true, "::": true, "::1": true, "fc00::1": true, "fe80::1": true, "fec0::1": true,
		"ff02::1": true, "2001:db8::1": true, "2001:0:7f00:1::": true, "::ffff:10.0.0.1": true, "64:ff9b::a00:1": true, "2002:a00:1::1": true, "::127.0.0.1": true,
	} {
		if got := address.Private(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
