package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestClientStatus(t *testing.T) {
	tests := []struct {
		name   string
		status int
		header http.Header
		body   string // ID stands for the call's id
		want   mcp.Kind
		text   string
	}{
		{"401", 401, http.Header{"Www-Authenticate": {"Bearer resource_metadata=x"}}, "", mcp.KindUnauthorized, "Authorization header"},
		{"403", 403, nil, "", mcp.KindPermissionDenied, "403"},
		{"429", 429, http.Header{"Retry-After": {"7"}}, "", mcp.KindRateLimited, "429"},
		{"413", 413, nil, "", mcp.KindTooLarge, "413"},
		{"500", 500, nil, "boom", mcp.KindUpstreamUnavailable, "failed to answer tools/call (500 Internal Server Error)"},
		{"503", 503, http.Header{"Retry-After": {"2"}}, "", mcp.KindUpstreamUnavailable, "503"},
		{"504", 504, nil, "", mcp.KindUpstreamTimeout, "504"},
		{"202", 202, nil, "", mcp.KindUpstreamProtocol, "answered tools/call with 202 Accepted instead of a response"},
		{"204", 204, nil, "", mcp.KindUpstreamProtocol, "204 No Content instead of a response"},
		{"300", 300, nil, "", mcp.KindUpstreamProtocol, "redirects"},
		{"405", 405, nil, "<html>", mcp.KindUpstreamProtocol, "check that the url"},
		{"407", 407, nil, "", mcp.KindUnauthorized, "proxy"},
		{"408", 408, nil, "", mcp.KindUpstreamTimeout, "408"},
		{"409", 409, nil, "", mcp.KindUpstreamProtocol, "refuses tools/call (409 Conflict), without saying why in JSON-RPC"},
		{"418", 418, nil, "", mcp.KindUpstreamProtocol, "refuses tools/call (418 I'm a teapot), without"},
		{"425", 425, nil, "", mcp.KindUpstreamUnavailable, "425"},
		{"501", 501, nil, "", mcp.KindUpstreamProtocol, "501"},
		{"400", 400, nil, "<html>", mcp.KindInvalidRequest, "does not take this tools/call (400 Bad Request)"},
		{"400 and JSON that is no answer", 400, nil, `{"error":"bad"}`, mcp.KindInvalidRequest, "does not take"},
		{"500 with an error of no request", 500, nil, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`, mcp.KindUpstreamUnavailable, "500"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				for k, v := range tt.header {
					w.Header()[k] = v
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte("secret " + tt.body)[7*b2i(strings.HasPrefix(tt.body, "{")):])
			}}
			c := dial(t, f, func(o *ClientOptions) { o.Name = `upstream "files"` })
			_, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x"}`), nil)
			if kindOf(err) != tt.want {
				t.Fatalf("err = %v (%s), want kind %s", err, kindOf(err), tt.want)
			}
			if !strings.Contains(err.Error(), tt.text) || !strings.HasPrefix(err.Error(), `upstream "files" (127.0.0.1:`) || strings.Contains(err.Error(), "secret") {
				t.Errorf("message %q, want %q in it", err, tt.text)
			}
			retryable := tt.want.Info().Retryable
			if errors.Is(err, mcp.ErrFinal) != (!retryable && tt.status != 429) {
				t.Errorf("final is %v of %s", errors.Is(err, mcp.ErrFinal), tt.want)
			}
			var s *StatusError
			if !errors.As(err, &s) || s.Status != tt.status || errors.Is(err, mcp.ErrNotSent) {
				t.Errorf("cause %v", s)
			}
			if auth := tt.header.Get("Www-Authenticate"); auth != "" && s.WWWAuthenticate[0] != auth {
				t.Errorf("WWWAuthenticate = %q", s.WWWAuthenticate)
			}
			if ra := tt.header.Get("Retry-After"); ra != "" {
				var e *mcp.Error
				errors.As(err, &e)
				if want := fmt.Sprintf(`{"kind":%q,"retry_after":%s}`, tt.want, ra); string(e.Data) != want {
					t.Errorf("data %s, want %s", e.Data, want)
				}
			}
			if c.Err() != nil {
				t.Errorf("the client ended: %v", c.Err())
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestClientErrorAnswers(t *testing.T) {
	const object = `{"code":-32020,"message":"header mismatch","data":{"a":1},"x":2}`
	for _, status := range []int{200, 400, 404, 500} {
		for _, modern := range []bool{false, true} {
			f := &fake{modern: modern, call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				w.Header().Set("Content-Type", ContentJSON)
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","error":%s,"id":%s}`, object, m.ID)
			}}
			c := dial(t, f, nil)
			_, err := c.Call(t.Context(), "x", nil, nil)
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || string(wire.Append(nil)) != object {
				t.Errorf("%d: err = %v, want the answer as it came", status, err)
			}
		}
	}
}

func TestClientSessionLost(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		lost   bool
	}{
		{"plain 404", 404, "session not found", true},
		{"404 of the TypeScript SDK", 404, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`, true},
		{"400 of its examples", 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`, true},
		{"another 400", 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"invalid"},"id":null}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{call: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}}
			c := dial(t, f, nil)
			_, err := c.Call(t.Context(), "x", nil, nil)
			if errors.Is(err, ErrSessionLost) != tt.lost || errors.Is(err, mcp.ErrNotSent) != tt.lost {
				t.Fatalf("err = %v", err)
			}
			if !tt.lost {
				return
			}
			if kindOf(err) != mcp.KindSessionNotFound {
				t.Errorf("kind %s", kindOf(err))
			}
			<-c.Done()
			n := len(f.seen())
			if _, err := c.Call(t.Context(), "x", nil, nil); !errors.Is(err, ErrSessionLost) || kindOf(err) != mcp.KindSessionNotFound {
				t.Errorf("the next call: %v", err)
			}
			c.Close()
			if got := f.seen()[n:]; len(got) > 0 && strings.Contains(strings.Join(got, ""), "POST") {
				t.Errorf("after the loss the server saw %q", got)
			}
			if strings.Contains(strings.Join(f.seen(), ""), "DELETE") {
				t.Error("a session that is gone was deleted")
			}
		})
	}
	t.Run("404 without a session", func(t *testing.T) {
		f := &fake{modern: true, call: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { http.Error(w, "", 404) }}
		c := dial(t, f, nil)
		if _, err := c.Call(t.Context(), "x", nil, nil); errors.Is(err, ErrSessionLost) || !errors.Is(err, mcp.ErrRefused) || c.Err() != nil {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("notification", func(t *testing.T) {
		f := &fake{}
		server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(f.seen()) > 2 && r.Method == http.MethodPost {
				http.Error(w, "", 404)
				return
			}
			f.ServeHTTP(w, r)
		})
		c := dial(t, server, nil)
		f.waitFor(t, "GET")
		if err := c.Notify(t.Context(), "x", nil); !errors.Is(err, ErrSessionLost) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestClientNotReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	plain := httptest.NewServer(&fake{})
	defer plain.Close()
	secure := httptest.NewTLSServer(&fake{})
	defer secure.Close()
	secure.Config.ErrorLog = nil
	tests := []struct{ name, base, want string }{
		{"refused", "http://" + closed.Addr().String(), "refused the connection"},
		{"no such host", "http://no-such-host.invalid", "host name has no address"},
		{"no TLS there", strings.Replace(plain.URL, "http:", "https:", 1), "should begin with http:"},
		{"unknown certificate", secure.URL, "not trusted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := strings.Replace(tt.base, "://", "://user:hunter2@", 1) + "/mcp?key=hunter2#hunter2"
			_, err := Dial(t.Context(), ClientOptions{URL: url})
			if kindOf(err) != mcp.KindUpstreamUnavailable || !errors.Is(err, mcp.ErrNotSent) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("err = %v", err)
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), "hunter2") {
					t.Errorf("a secret in %q", e)
				}
			}
		})
	}
	for _, url := range []string{"", "localhost:80", "ftp://hunter2@x/", "http://", "http://hunter2@[::1"} {
		if _, err := Dial(t.Context(), ClientOptions{URL: url}); kindOf(err) != mcp.KindInvalidParams || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestClientServerDiesDuringACall(t *testing.T) {
	for _, how := range []string{"before the header", "in the body", "in the stream"} {
		t.Run(how, func(t *testing.T) {
			f := &fake{call: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
				switch how {
				case "in the body":
					w.Header().Set("Content-Type", ContentJSON)
					w.Header().Set("Content-Length", "1000")
					_, _ = w.Write([]byte(`{"jsonrpc"`))
					_ = http.NewResponseController(w).Flush()
				case "in the stream":
					events(w)("", `{"jsonrpc":"2.0","method":"notifications/message"}`)
				}
				panic(http.ErrAbortHandler)
			}}
			c := dial(t, f, nil)
			_, err := c.Call(t.Context(), "x", nil, nil)
			if kindOf(err) != mcp.KindUpstreamUnavailable || errors.Is(err, mcp.ErrNotSent) {
				t.Errorf("err = %v: it may have done the call", err)
			}
		})
	}
}

func TestClientBadResponses(t *testing.T) {
	for name, tt := range map[string]struct{ contentType, body string }{
		"html":        {"text/html", "<html>hi</html>"},
		"no JSON":     {ContentJSON, "hi"},
		"empty":       {ContentJSON, ""},
		"other id":    {ContentJSON, `{"jsonrpc":"2.0","id":4711,"result":{}}`},
		"duplicate":   {ContentJSON, `{"jsonrpc":"2.0","id":2,"result":{},"result":{}}`},
		"two":         {ContentJSON, `[]`},
		"a request":   {ContentJSON, `{"jsonrpc":"2.0","id":2,"method":"ping"}`},
		"an empty ID": {ContentJSON, `{"jsonrpc":"2.0","id":null,"result":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{call: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.Header().Set("Content-Type", tt.contentType)
				_, _ = w.Write([]byte(tt.body))
			}}
			c := dial(t, f, nil)
			if _, err := c.Call(t.Context(), "x", nil, nil); kindOf(err) != mcp.KindUpstreamProtocol {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestClientBounds(t *testing.T) {
	const limit = 4096
	big := strings.Repeat("x", 2*limit)
	for name, serve := range map[string]func(w http.ResponseWriter, m jsonrpc.Message){
		"announced": func(w http.ResponseWriter, m jsonrpc.Message) { writeJSON(w, []byte(result(m, `"`+big+`"`))) },
		"chunked": func(w http.ResponseWriter, m jsonrpc.Message) {
			w.Header().Set("Content-Type", ContentJSON)
			for range 100 {
				_, _ = w.Write([]byte(big))
				_ = http.NewResponseController(w).Flush()
			}
		},
		"sse": func(w http.ResponseWriter, m jsonrpc.Message) { events(w)("1", result(m, `"`+big+`"`)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) { serve(w, m) }}
			c := dial(t, f, func(o *ClientOptions) { o.MaxResponse = limit })
			if _, err := c.Call(t.Context(), "x", nil, nil); kindOf(err) != mcp.KindUpstreamProtocol || !strings.Contains(err.Error(), "4096") {
				t.Errorf("err = %v", err)
			}
		})
	}
	for name, body := range map[string]string{"exactly": strings.Repeat("x", limit-len(`{"jsonrpc":"2.0","id":2,"result":""}`))} {
		f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			writeJSON(w, []byte(result(m, `"`+body+`"`)))
		}}
		c := dial(t, f, func(o *ClientOptions) { o.MaxResponse = limit })
		if got, err := c.Call(t.Context(), "x", nil, nil); err != nil || len(got) != len(body)+2 {
			t.Errorf("%s the bound: %v", name, err)
		}
	}
}

func TestClientLargeResponses(t *testing.T) {
	for _, size := range []int{0, 1, 16 << 10, 1 << 20, 5 << 20} {
		f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			body := result(m, `"`+strings.Repeat("y", size)+`"`)
			if m.Method == "announced" {
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			}
			if m.Method == "sse" {
				events(w)("", body)
				return
			}
			writeJSON(w, []byte(body))
		}}
		c := dial(t, f, nil)
		for _, method := range []string{"announced", "chunked", "sse"} {
			if got, err := c.Call(t.Context(), method, nil, nil); err != nil || len(got) != size+2 {
				t.Errorf("%s %d: %d bytes, %v", method, size, len(got), err)
			}
		}
	}
}

func TestClientDoesNotFollowToAnotherHost(t *testing.T) {
	asked := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("X-Api-Key")
	}))
	defer other.Close()
	f := &fake{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/mcp":
			http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
		default:
			f.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	header := http.Header{"X-Api-Key": {"key"}}
	_, err := Dial(t.Context(), ClientOptions{URL: server.URL + "/away", Header: header})
	if kindOf(err) != mcp.KindUpstreamProtocol || !strings.Contains(err.Error(), "configure that url") {
		t.Errorf("err = %v", err)
	}
	select {
	case key := <-asked:
		t.Errorf("another host was given the key %q", key)
	default:
	}
	c, err := Dial(t.Context(), ClientOptions{URL: server.URL + "/mcp", Header: header})
	if err != nil {
		t.Fatalf("a redirect within the origin: %v", err)
	}
	c.Close()
}

func TestClientHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		start := time.Now()
		_, err := Dial(t.Context(), ClientOptions{URL: "http://fake/", HTTPClient: &http.Client{Transport: wireless{silent}}})
		if kindOf(err) != mcp.KindUpstreamTimeout || !strings.Contains(err.Error(), "handshake within 30s") || time.Since(start) != 30*time.Second {
			t.Errorf("err = %v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Dial(ctx, ClientOptions{URL: "http://fake/", HTTPClient: &http.Client{Transport: wireless{silent}}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want the caller's", err)
		}
	})
}

func TestClientBadSessionID(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderSession, "a b")
		writeJSON(w, []byte(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`))
	}))
	defer server.Close()
	if _, err := Dial(t.Context(), ClientOptions{URL: server.URL}); kindOf(err) != mcp.KindUpstreamProtocol || !strings.Contains(err.Error(), "session id") {
		t.Errorf("err = %v", err)
	}
}

func TestClientSendTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		silent := false
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if silent {
				<-r.Context().Done()
				return
			}
			f.ServeHTTP(w, r)
		})
		c, err := Dial(t.Context(), ClientOptions{URL: "http://fake/", HTTPClient: &http.Client{Transport: wireless{h}}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		silent = true
		if err := c.Notify(t.Context(), "x", nil); kindOf(err) != mcp.KindUpstreamTimeout {
			t.Errorf("err = %v", err)
		}
		start := time.Now()
		c.Close()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("Close of a silent server took %s", took)
		}
	})
}

// A server that answers with an error and says in a header when to come back is
// told on with both.
func TestClientRetryAfterOfAnAnswer(t *testing.T) {
	for _, tt := range []struct{ header, data, want string }{
		{"7", "", `{"retry_after":7}`},
		{"7", `,"data":{"why":"busy"}`, `{"why":"busy","retry_after":7}`},
		{"7", `,"data":{"retry_after":3}`, `{"retry_after":3}`},
		{"7", `,"data":"busy"`, `"busy"`},
		{"", `,"data":{"why":"busy"}`, `{"why":"busy"}`},
	} {
		f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			if tt.header != "" {
				w.Header().Set("Retry-After", tt.header)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"busy"%s}}`, m.ID, tt.data)
		}}
		_, err := dial(t, f, nil).Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x"}`), nil)
		var answer *jsonrpc.Error
		if !errors.As(err, &answer) || string(answer.Data) != tt.want {
			t.Errorf("%s and %s: %v with %s, want %s", tt.header, tt.data, err, answer.Data, tt.want)
		}
	}
}
