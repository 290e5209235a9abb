package agents

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
)

// hosts is an Options.Hosts with one list for all.
func hosts(t *testing.T, entries ...string) func(string) address.List {
	t.Helper()
	l, err := address.NewList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return func(string) address.List { return l }
}

// lookup is a resolver that knows these names.
func lookup(names map[string]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		if names[host] == "" {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr(names[host])}, nil
	}
}

// An agent is at the address that it comes from, or where the operator lets its
// principal put agents: a token for registration is no way to other hosts.
func TestPlaceOfAgents(t *testing.T) {
	listed := hosts(t, "agents.lan", "10.0.0.9:7000", "meta.lan", "127.0.0.1:7000")
	r := New(Options{
		Hosts: func(principal string) address.List {
			if principal == "ops" {
				return listed("")
			}
			return address.List{}
		},
		Lookup: lookup(map[string]string{"self.lan": "10.0.0.7", "agents.lan": "10.0.0.8", "meta.lan": "169.254.169.254", "rebound.lan": "127.0.0.1", "localhost": "127.0.0.1"}),
	})
	for _, c := range []struct {
		principal, remote, header, place string
		status                           int
	}{
		{"ann", "10.0.0.7:4000", "", `"port":7000`, 200},
		{"ann", "10.0.0.7:4000", "", `"url":"http://10.0.0.7:9999/deep/mcp"`, 200},
		{"ann", "10.0.0.7:4000", "", `"url":"http://[::ffff:10.0.0.7]:9999/mcp"`, 200},
		{"ann", "10.0.0.7:4000", "", `"url":"http://self.lan:7000/mcp"`, 200},
		{"ann", "10.0.0.7:4000", "", `"url":"http://unknown.lan:7000/mcp"`, 200}, // it is not connected to
		{"ann", "10.0.0.7:4000", "", `"url":"http://10.0.0.8:7000/mcp"`, 403},
		{"ann", "10.0.0.7:4000", "", `"url":"http://agents.lan:7000/mcp"`, 403},
		{"ann", "10.0.0.7:4000", "", `"url":"http://127.0.0.1:7000/mcp"`, 403},
		{"ann", "10.0.0.7:4000", "", `"url":"http://localhost:7000/mcp"`, 403},
		{"ann", "10.0.0.7:4000", "", `"url":"http://rebound.lan/mcp"`, 403},
		{"ann", "10.0.0.7:4000", "", `"url":"http://169.254.169.254/latest/meta-data/iam"`, 403},
		{"ann", "10.0.0.7:4000", "", `"url":"http://[fe80::1]/mcp"`, 403},
		{"ann", "10.0.0.7:4000", "", `"url":"http://0.0.0.0:7000/mcp"`, 403},
		{"ann", "169.254.1.1:4000", "", `"port":7000`, 403},
		{"ann", "127.0.0.1:4000", "", `"url":"http://localhost:7000/mcp"`, 200},
		{"ann", "127.0.0.1:4000", "", `"url":"http://[::1]:7000/mcp"`, 200},
		{"ann", "127.0.0.1:4000", "", `"url":"http://0.0.0.0:7000/mcp"`, 403},
		{"ann", "127.0.0.1:4000", "X-Forwarded-For", `"url":"http://localhost:7000/mcp"`, 403},
		{"ann", "127.0.0.1:4000", "Forwarded", `"port":7000`, 400},
		{"ops", "10.0.0.7:4000", "", `"url":"http://agents.lan/mcp"`, 200},
		{"ops", "10.0.0.7:4000", "", `"url":"http://10.0.0.9:7000/mcp"`, 200},
		{"ops", "10.0.0.7:4000", "", `"url":"http://10.0.0.9:7001/mcp"`, 403},
		{"ops", "10.0.0.7:4000", "", `"url":"http://meta.lan/latest/meta-data/iam"`, 403},
		{"ops", "10.0.0.7:4000", "X-Forwarded-For", `"url":"http://127.0.0.1:7000/mcp"`, 200},
	} {
		name := "of-" + c.principal // a name belongs to one principal
		req := httptest.NewRequest("POST", Path, strings.NewReader(`{"name":"`+name+`","instance":"1",`+c.place+`}`))
		req.RemoteAddr = c.remote
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
		if c.header != "" {
			req.Header.Set(c.header, "203.0.113.9")
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req.WithContext(guard.WithPrincipal(req.Context(), c.principal)))
		answer := w.Body.String()
		if w.Code != c.status || c.status == 403 && !strings.Contains(answer, "agents.hosts") {
			t.Errorf("%s from %s %s as %s: %d %s, want %d", c.place, c.remote, c.header, c.principal, w.Code, answer, c.status)
		}
		rule, ok := r.Rule(name)
		if ok != (w.Code == 200) || ok && c.header == "" && !strings.HasPrefix(c.remote, rule.From.String()) {
			t.Errorf("%s: rule %+v, %v", c.place, rule, ok)
		}
		r.leave(c.principal, name, "1")
	}
	r.SetRoutes([]Route{{"routed", "http://10.9.9.9/mcp"}})
	if _, ok := r.Rule("routed"); ok {
		t.Error("an agent of routing.json has a rule")
	}
}

// A page can have a browser post a text without being asked, JSON it cannot.
func TestRegistrationIsJSON(t *testing.T) {
	r := New(Options{})
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp"} {
		req := httptest.NewRequest("POST", Path, strings.NewReader(`{"name":"a","instance":"1","port":7000}`))
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != 415 || !strings.Contains(w.Body.String(), "application/json") || len(r.Agents()) != 0 {
			t.Errorf("%q: %d %s", contentType, w.Code, w.Body)
		}
	}
}
