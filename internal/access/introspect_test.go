package access_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/mcp"
)

const endpoint = "/t/introspect"

func opaque(p *access.Policy, o *fakeidp.Options) {
	o.ClientID, o.ClientSecret = "weir", "s3cret"
	p.Issuers[0].Introspection = &access.Introspection{URL: issuer + "/introspect", ClientID: "weir", ClientSecret: "s3cret"}
}

func TestIntrospection(t *testing.T) {
	inWorld(t, opaque, func(w world) {
		id, err := w.ask("/mcp", w.idp.Opaque(with("scope", "mcp", "client_id", "cli")))
		if err != nil || id.Principal != "corp:u1" || !id.HasScope("mcp") || id.Client != "cli" || !id.Revocable {
			t.Fatalf("%+v, %v", id, err)
		}
		w.wants("unknown", "opaque-x", "unauthorized")
		w.wants("foreign audience", w.idp.Opaque(map[string]any{"aud": "x"}), "unauthorized")
		w.wants("foreign issuer", w.idp.Opaque(with("iss", "https://other")), "unauthorized")
		w.wants("expired", w.idp.Opaque(with("exp", time.Now().Add(-time.Hour).Unix())), "unauthorized")
		w.wants("no exp", w.idp.Opaque(with("exp", nil)), "")
		w.wants("a refresh token", w.idp.Opaque(with("token_use", "refresh_token")), "unauthorized")
		w.wants("a JWT is not sent", w.idp.Token(with()), "")
		if id, err := w.ask("/mcp", w.idp.Token(with())); err != nil || id.Revocable {
			t.Errorf("a JWT: %+v, %v", id, err)
		}
	})
}

// TestIntrospectionIsKept: active for 30 s, inactive for 10 s, one question for all requests.
func TestIntrospectionIsKept(t *testing.T) {
	inWorld(t, opaque, func(w world) {
		token := w.idp.Opaque(with())
		for range 5 {
			go w.wants("active", token, "")
		}
		synctest.Wait()
		w.idp.Revoke(token)
		time.Sleep(29 * time.Second)
		w.wants("kept", token, "")
		if got := w.idp.Requests(endpoint); got != 1 {
			t.Errorf("%d questions, want 1", got)
		}
		time.Sleep(time.Second)
		w.wants("revoked", token, "unauthorized")
		time.Sleep(9 * time.Second)
		w.wants("still revoked", token, "unauthorized")
		if got := w.idp.Requests(endpoint); got != 2 {
			t.Errorf("%d questions, want 2", got)
		}
		time.Sleep(time.Second)
		w.wants("asked again", token, "unauthorized")
		if got := w.idp.Requests(endpoint); got != 3 {
			t.Errorf("%d questions, want 3", got)
		}
	})
}

func TestIntrospectionUnavailable(t *testing.T) {
	inWorld(t, opaque, func(w world) {
		w.idp.Outage(true)
		token := w.idp.Opaque(with())
		w.wants("down", token, "identity_unavailable")
		w.idp.Outage(false)
		w.wants("up", token, "") // a failure is not kept
	})
	inWorld(t, func(p *access.Policy, o *fakeidp.Options) {
		opaque(p, o)
		p.Issuers[0].Introspection.ClientSecret = "wrong"
	}, func(w world) {
		w.wants("a wrong secret of weir", w.idp.Opaque(with()), "identity_unavailable")
	})
}

// held is a transport that holds every question until the test ends it.
type held struct {
	release chan struct{}
	asked   atomic.Int64
}

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/introspect") {
		h.asked.Add(1)
		select {
		case <-h.release:
		case <-r.Context().Done():
		}
	}
	return nil, errors.New("no answer")
}

// TestStrangersCannotPileUpQuestions: tokens that callers made up take a bounded number of questions
// at a time; the callers beyond may try again, and a token that is known is served.
func TestStrangersCannotPileUpQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{release: make(chan struct{})}
		a := access.New(access.Options{Client: &http.Client{Transport: h}})
		defer a.Close()
		p := access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer, JWKS: issuer + "/jwks"}}, Tokens: []access.Token{{Name: "ci", SHA256: sha256.Sum256([]byte("static"))}}}
		opaque(&p, &fakeidp.Options{})
		a.Apply(p)
		ask := func(token string) error {
			_, err := a.Authenticate(httptest.NewRequest("POST", "/mcp", nil).WithContext(t.Context()), token)
			return err
		}
		var refused atomic.Int64
		for i := range 1000 {
			go func() {
				if err := ask(fmt.Sprint("made-up-", i)); kind(err) == "identity_unavailable" && mcp.RetryAfter(err) > 0 {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		if asked, again := h.asked.Load(), refused.Load(); asked != 256 || asked+again != 1000 {
			t.Errorf("%d questions at a time and %d callers that may try again, want 256 of 1000", asked, again)
		}
		if err := ask("static"); err != nil {
			t.Errorf("a static token meanwhile: %v", err)
		}
		close(h.release)
		synctest.Wait()
		if got := refused.Load(); got != 1000 {
			t.Errorf("%d callers have their answer", got)
		}
	})
}

// endpoints is a transport that answers questions about tokens and records who was asked about which.
type endpoints struct {
	mu    sync.Mutex // guards below
	asked []string
}

func (e *endpoints) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/introspect") {
		return nil, errors.New("no answer")
	}
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	token := r.PostForm.Get("token")
	e.mu.Lock()
	e.asked = append(e.asked, r.URL.Host+" "+token)
	e.mu.Unlock()
	answer := `{"active":false}`
	if strings.HasSuffix(token, "good") {
		answer = `{"active":true,"sub":"u1","aud":"` + public + `"}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// TestOpaqueTokenReachesOneIssuer: no issuer sees a token of another one, also where none knows it.
func TestOpaqueTokenReachesOneIssuer(t *testing.T) {
	of := func(name, prefix string) access.Issuer {
		at := "https://" + name + ".example"
		return access.Issuer{Name: name, Issuer: at, JWKS: at + "/jwks", Introspection: &access.Introspection{URL: at + "/introspect", Prefix: prefix}}
	}
	for _, tt := range []struct {
		issuers     []access.Issuer
		token       string
		asked, from string
	}{
		{[]access.Issuer{of("a", "a_"), of("b", "b_")}, "a_good", "a.example a_good", "a:u1"},
		{[]access.Issuer{of("a", "a_"), of("b", "b_")}, "b_good", "b.example b_good", "b:u1"},
		{[]access.Issuer{of("a", "a_"), of("b", "b_")}, "b_bad", "b.example b_bad", ""},
		{[]access.Issuer{of("a", "a_"), of("b", "b_")}, "c_good", "", ""},
		{[]access.Issuer{of("a", ""), of("b", "b_")}, "b_bad", "b.example b_bad", ""},
		{[]access.Issuer{of("a", ""), of("b", "b_")}, "c_good", "a.example c_good", "a:u1"},
		{[]access.Issuer{of("a", "t_"), of("b", "t_b_")}, "t_b_good", "b.example t_b_good", "b:u1"},
		{[]access.Issuer{of("a", "t_b_"), of("b", "t_")}, "t_good", "b.example t_good", "b:u1"},
		{[]access.Issuer{of("a", "a_")}, "good", "", ""},
	} {
		e := &endpoints{}
		a := access.New(access.Options{Client: &http.Client{Transport: e}})
		a.Apply(access.Policy{PublicURL: public, Issuers: tt.issuers})
		id, err := a.Authenticate(httptest.NewRequest("POST", "/mcp", nil).WithContext(t.Context()), tt.token)
		principal := ""
		if err == nil {
			principal = id.Principal
		}
		if asked := strings.Join(e.asked, ", "); asked != tt.asked || principal != tt.from {
			t.Errorf("%s: asked %q, and the caller is %q (%v); want %q and %q", tt.token, asked, principal, err, tt.asked, tt.from)
		}
		a.Close()
	}
}
