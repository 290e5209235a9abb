package plane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/s2sp/plane"
)

func fetcher(t testing.TB, opts plane.FetchOptions) *plane.Fetcher {
	t.Helper()
	f, err := plane.NewFetcher(opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFetch(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, _ := serve(t, store)
	host := server.Listener.Addr().String()
	f := fetcher(t, plane.FetchOptions{Allow: []string{host}})
	url := plane.URL(server.URL, deposit(t, store, alerts))
	got, err := f.Fetch(t.Context(), url, []int{1}, []string{"event", "text"})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(got.View().AppendJSON(nil)); text != `[{"_row_id":1,"event":"Flood","text":"\ud83d\ude00"}]` {
		t.Errorf("got %s", text)
	}
	if _, err := f.Fetch(t.Context(), url, nil, nil); !errors.Is(err, plane.ErrGone) || !strings.Contains(err.Error(), "once") || strings.Contains(err.Error(), url[len(url)-20:]) {
		t.Errorf("fetched twice: %v", err)
	}
	got, err = f.Fetch(t.Context(), plane.URL(server.URL, deposit(t, store, alerts)), nil, nil)
	if err != nil || got.Len() != 2 || !got.Has("_row_id") {
		t.Errorf("everything: %v", err)
	}
}

// Peers come and go, and are asked only while they are there.
func TestFetchFromPeers(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, _ := serve(t, store)
	peers := []plane.Peer{{Server: "no port"}, {}}
	f := fetcher(t, plane.FetchOptions{Allow: []string{"127.0.0.1:1"}, Peers: func() []plane.Peer { return peers }})
	url := plane.URL(server.URL, deposit(t, store, alerts))
	if _, err := f.Fetch(t.Context(), url, nil, nil); !errors.Is(err, plane.ErrRefused) {
		t.Errorf("a server that is no peer: %v", err)
	}
	peers = append(peers, plane.Peer{Server: server.Listener.Addr().String(), Rule: address.Rule{From: netip.MustParseAddr("10.0.0.7")}})
	if _, err := f.Fetch(t.Context(), url, nil, nil); !errors.Is(err, plane.ErrRefused) {
		t.Errorf("a peer whose address is another's: %v", err)
	}
	peers[2].Rule.From = netip.MustParseAddr("127.0.0.1")
	if got, err := f.Fetch(t.Context(), url, nil, nil); err != nil || got.Len() != 2 {
		t.Errorf("a peer: %v", err)
	}
	if err := f.Check("http://127.0.0.1:2" + plane.Path + "x"); err == nil || !strings.Contains(err.Error(), peers[2].Server) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("the servers that may be asked: %v", err)
	}
}

// A resource_url comes from a model: none of these may reach anybody.
func TestFetchRefuses(t *testing.T) {
	reached := func(context.Context, string, string) (net.Conn, error) {
		t.Error("somebody was reached")
		return nil, errors.New("reached")
	}
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		t.Errorf("%s was looked up", host)
		return nil, errors.New("looked up")
	}
	f := fetcher(t, plane.FetchOptions{Allow: []string{"127.0.0.1:8088", "[::1]:8088", "weather.example.com:443"}, Dial: reached, Lookup: lookup})
	const path = "/s2sp/data/TOKEN"
	for _, c := range []struct{ url, says string }{
		{"", "scheme"},
		{"not a url", "scheme"},
		{"http://127.0.0.1:8088" + path + "\x7f", "no URL"},
		{"ftp://127.0.0.1:8088" + path, "scheme"},
		{"file:///s2sp/data/TOKEN", "scheme"},
		{"gopher://127.0.0.1:8088" + path, "scheme"},
		{"unix:///run/docker.sock", "scheme"},
		{"//127.0.0.1:8088" + path, "scheme"},
		{"ddi://TOKEN", "ddi"},
		{"http:" + path, "host"},
		{"http://" + path, "host"},
		{"http://user@127.0.0.1:8088" + path, "user name"},
		{"http://127.0.0.1:8088@evil.example" + path, "user name"},
		{"http://evil.example#@127.0.0.1:8088" + path, "fragment"},
		{"http://127.0.0.1:8088" + path + "?x=1", "query"},
		{"http://127.0.0.1:8088" + path + "?", "query"},
		{"http://127.0.0.1:8088" + path + "#x", "fragment"},
		{"http://127.0.0.1:8088/", "path"},
		{"http://127.0.0.1:8088/s2sp/data/", "path"},
		{"http://127.0.0.1:8088/s2sp/data/../../admin", "path"},
		{"http://127.0.0.1:8088/s2sp/data/a/b", "path"},
		{"http://127.0.0.1:8088/s2sp/data/a%2fb", "path"},
		{"http://127.0.0.1:8088/s2sp/data/%2e%2e", "path"},
		{"http://127.0.0.1:8088/s2sp/data/a b", "path"},
		{"http://127.0.0.1:8088/x/s2sp/data/TOKEN", "path"},
		{"http://127.0.0.1:8088/S2SP/data/TOKEN", "path"},
		{"http://127.0.0.1:8089" + path, "127.0.0.1:8089 is not one"},
		{"http://127.0.0.1" + path, "127.0.0.1:80 is not one"},
		{"http://127.0.0.2:8088" + path, "not one"},
		{"http://127.1:8088" + path, "not one"},
		{"http://2130706433:8088" + path, "not one"},
		{"http://0x7f000001:8088" + path, "not one"},
		{"http://0177.0.0.1:8088" + path, "not one"},
		{"http://localhost:8088" + path, "not one"},
		{"http://127.0.0.1.:8088" + path, "not one"},
		{"http://[::ffff:127.0.0.1]:8088" + path, "not one"},
		{"http://[::127.0.0.1]:8088" + path, "not one"},
		{"http://[0:0:0:0:0:ffff:7f00:1]:8088" + path, "not one"},
		{"http://[::]:8088" + path, "not one"},
		{"http://[::1%25lo]:8088" + path, "not one"},
		{"http://[64:ff9b::7f00:1]:8088" + path, "not one"},
		{"http://169.254.169.254" + path, "not one"},
		{"http://weather.example.com" + path, "weather.example.com:80"},
		{"https://weather.example.com.:443" + path, "not one"},
		{"https://weather.example.com.evil.example" + path, "not one"},
		{"https://xweather.example.com" + path, "not one"},
	} {
		_, err := f.Fetch(t.Context(), c.url, nil, nil)
		if !errors.Is(err, plane.ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a refusal with %q", c.url, err, c.says)
		}
		if cerr := f.Check(c.url); fmt.Sprint(cerr) != fmt.Sprint(err) {
			t.Errorf("%s: Check says %v, Fetch %v", c.url, cerr, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1:8088" + path, "http://[0:0::1]:8088" + path, "https://Weather.Example.COM" + path, "HTTPS://weather.example.com:443" + path} {
		if err := f.Check(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := fetcher(t, plane.FetchOptions{}).Check("http://127.0.0.1:8088" + path); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("an empty list allows: %v", err)
	}
	for _, entry := range []string{"127.0.0.1", "host:", ":80", "host:0", "host:http", "http://host:80", "::1:80", "host:65536"} {
		if _, err := plane.NewFetcher(plane.FetchOptions{Allow: []string{entry}}); err == nil {
			t.Errorf("%q was taken for host:port", entry)
		}
	}
}

// A name that is allowed is still only as good as what it resolves to.
func TestFetchRefusesPrivateAddresses(t *testing.T) {
	const url = "http://weather.example.com:80/s2sp/data/TOKEN"
	for _, c := range []struct {
		addresses string
		private   string
		ok        bool
	}{
		{"93.184.216.34", "", true},
		{"2606:2800:220:1::1", "", true},
		{"93.184.216.34 127.0.0.1", "", false},
		{"127.0.0.1", "", false},
		{"127.8.8.8", "", false},
		{"0.0.0.0", "", false},
		{"10.1.2.3", "", false},
		{"10.1.2.3", "10.1.0.0/16", true},
		{"10.2.2.3", "10.1.0.0/16", false},
		{"172.16.0.1", "", false},
		{"192.168.1.1", "", false},
		{"169.254.169.254", "", false},
		{"100.64.0.1", "", false},
		{"198.18.0.1", "", false},
		{"224.0.0.1", "", false},
		{"255.255.255.255", "", false},
		{"::1", "", false},
		{"::", "", false},
		{"::ffff:127.0.0.1", "", false},
		{"::ffff:10.0.0.1", "", false},
		{"::ffff:93.184.216.34", "", true},
		{"::127.0.0.1", "", false},
		{"64:ff9b::7f00:1", "", false},
		{"64:ff9b::a00:1", "", false},
		{"2002:7f00:1::", "", false},
		{"2002:a00:1::1", "", false},
		{"2001:0:7f00:1::", "", false},
		{"fe80::1", "", false},
		{"fc00::1", "", false},
		{"fd12:3456::1", "", false},
		{"fd12:3456::1", "fd12::/16", true},
		{"fec0::1", "", false},
		{"ff02::1", "", false},
		{"2001:db8::1", "", false},
	} {
		var dialed []string
		opts := plane.FetchOptions{
			Allow: []string{"weather.example.com:80"},
			Lookup: func(context.Context, string) (ips []netip.Addr, err error) {
				for s := range strings.FieldsSeq(c.addresses) {
					ips = append(ips, netip.MustParseAddr(s))
				}
				return ips, nil
			},
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				dialed = append(dialed, address)
				return nil, errors.New("no network here")
			},
		}
		if c.private != "" {
			opts.Private = []netip.Prefix{netip.MustParsePrefix(c.private)}
		}
		_, err := fetcher(t, opts).Fetch(t.Context(), url, nil, nil)
		if c.ok && (!errors.Is(err, plane.ErrFetch) || len(dialed) != 1) {
			t.Errorf("%s: dialed %v, %v", c.addresses, dialed, err)
		}
		if !c.ok && (!errors.Is(err, plane.ErrRefused) || len(dialed) != 0 || !strings.Contains(err.Error(), "public")) {
			t.Errorf("%s: dialed %v, %v", c.addresses, dialed, err)
		}
	}
}

// The address that was checked is the one that is connected to: a name that
// resolves to another the next time gains nothing.
func TestFetchPinsTheAddress(t *testing.T) {
	lookups := 0
	var dialed []string
	f := fetcher(t, plane.FetchOptions{
		Allow: []string{"weather.example.com:8080", "localhost:8080"},
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			if lookups++; lookups > 1 {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("93.184.216.35")}, nil
		},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = append(dialed, address)
			return nil, errors.New("no network here")
		},
	})
	_, err := f.Fetch(t.Context(), "http://weather.example.com:8080/s2sp/data/TOKEN", nil, nil)
	if lookups != 1 || fmt.Sprint(dialed) != "[93.184.216.34:8080 93.184.216.35:8080]" {
		t.Errorf("%d lookups, dialed %v, %v", lookups, dialed, err)
	}
	if err == nil || strings.Contains(err.Error(), "TOKEN") {
		t.Errorf("the error gives the token away: %v", err)
	}
	dialed = nil
	if _, err = f.Fetch(t.Context(), "http://weather.example.com:8080/s2sp/data/TOKEN", nil, nil); !errors.Is(err, plane.ErrRefused) || dialed != nil {
		t.Errorf("rebound: dialed %v, %v", dialed, err)
	}
	if _, err = f.Fetch(t.Context(), "http://localhost:8080/s2sp/data/TOKEN", nil, nil); !errors.Is(err, plane.ErrFetch) || len(dialed) != 1 {
		t.Errorf("localhost: dialed %v, %v", dialed, err)
	}
}

func TestFetchAnswers(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	var answer func(w http.ResponseWriter, r *http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer server.Close()
	host := server.Listener.Addr().String()
	f := fetcher(t, plane.FetchOptions{Allow: []string{host, other.Listener.Addr().String()}, MaxBytes: 1000})
	say := func(body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		kind   error
		says   string
	}{
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}, plane.ErrRefused, "redirect"},
		{"redirect home", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+host+r.URL.Path, http.StatusSeeOther)
		}, plane.ErrRefused, "redirect"},
		{"gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, plane.ErrGone, host},
		{"error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, plane.ErrFetch, "500"},
		{"too large, and says so", say(`{"body":[{"a":"` + strings.Repeat("x", 1000) + `"}]}`), plane.ErrFetch, "1000 bytes"},
		{"too large", func(w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				io.WriteString(w, strings.Repeat(" ", 100))
				w.(http.Flusher).Flush()
			}
		}, plane.ErrFetch, "1000 bytes"},
		{"breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			io.WriteString(w, `{"body":[`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, plane.ErrFetch, "broke off"},
		{"no JSON", say(`<html>`), plane.ErrFetch, "S2SP"},
		{"no body", say(`{"rows":[]}`), plane.ErrFetch, "no body"},
		{"no table", say(`{"body":[1]}`), plane.ErrFetch, "no table"},
		{"two bodies", say(`{"body":[],"body":[{"a":1}]}`), plane.ErrFetch, "duplicate"},
	} {
		answer = c.answer
		_, err := f.Fetch(t.Context(), "http://"+host+"/s2sp/data/TOKEN", nil, nil)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.kind, c.says)
		}
	}
	answer = func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != "POST" || string(body) != `{"row_ids":[3,1],"columns":["a\"b"]}` || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("asked %s %s with %v, %v", r.Method, body, r.Header, err)
		}
		io.WriteString(w, ` { "total_rows" : 1, "body" : [ {"_row_id":1} ] } `) // as other servers write it
	}
	if got, err := f.Fetch(t.Context(), "http://"+host+"/s2sp/data/TOKEN", []int{3, 1}, []string{`a"b`}); err != nil || got.Len() != 1 {
		t.Errorf("%v", err)
	}
}

func TestFetchHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fetcher(t, plane.FetchOptions{
			Allow: []string{"127.0.0.1:80"}, Timeout: 5 * time.Second,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		start := time.Now()
		_, err := f.Fetch(t.Context(), "http://127.0.0.1/s2sp/data/TOKEN", nil, nil)
		if !errors.Is(err, plane.ErrFetch) || !strings.Contains(err.Error(), "5s") || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Fetch(ctx, "http://127.0.0.1/s2sp/data/TOKEN", nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
