package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/mcp"
)

// TestExchangedTokensInTime: a token serves until 80 % of its life, and until its end while the issuer
// cannot be asked. A refusal ends its use at once. Calls at the same time share one exchange.
func TestExchangedTokensInTime(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	idp, server := fakeidp.Start(fakeidp.Options{ClientID: "weir", ClientSecret: "0123456789abcdef", Now: clock}, "")
	defer server.Close()
	store := vault.NewMemory(nil)
	c := New(Options{Store: store, Now: clock})
	e := NewExchanger(c)
	defer func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s := &Server{Name: "crm", URL: "http://127.0.0.1:1/mcp", Flow: FlowTokenExchange, Issuer: idp.Issuer(), ClientID: "weir", ClientSecret: "0123456789abcdef"}
	shown := func() Subject {
		return Subject{Principal: "corp:u1", Grant: "a", Issuer: "corp", Token: identity.Secret(idp.Token(map[string]any{"exp": clock().Add(24 * time.Hour).Unix()}))}
	}
	get := func(sub Subject) (identity.Secret, error) {
		a, err := e.Token(t.Context(), s, sub, Access{})
		return a.Token, err
	}

	var calls sync.WaitGroup
	var got [8]identity.Secret
	sub := shown()
	for i := range got {
		calls.Go(func() {
			var err error
			if got[i], err = get(sub); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for _, one := range got {
		if one != got[0] || one == "" {
			t.Fatal("calls at the same time have several tokens")
		}
	}
	pass(47 * time.Minute)
	if again, err := get(shown()); again != got[0] || err != nil || len(idp.Exchanges()) != 1 {
		t.Errorf("before 80 %% of its life: %v, %d exchanges", err, len(idp.Exchanges()))
	}
	pass(2 * time.Minute)
	idp.Outage(true)
	for range 3 { // the failures wait
		if again, err := get(sub); again != got[0] || err != nil {
			t.Errorf("in an outage: %v", err)
		}
	}
	if n := idp.Requests("/.well-known/oauth-authorization-server"); n != 2 {
		t.Errorf("%d questions to an issuer that is down", n)
	}
	pass(12 * time.Minute)
	if _, err := get(sub); err == nil {
		t.Error("a token serves after its end")
	} else if k, _ := mcp.KindOf(err); k != mcp.KindIdentityUnavailable || errors.As(err, new(*SignInError)) {
		t.Errorf("the end in an outage: %v", err)
	}
	idp.Outage(false)
	pass(maxWait)
	second, err := get(sub)
	if err != nil || second == got[0] {
		t.Fatalf("after the outage: %v", err)
	}
	idp.FailExchanges(map[string]any{"error": "invalid_grant"})
	pass(50 * time.Minute)
	if _, err := get(sub); !errors.As(err, new(*SignInError)) {
		t.Errorf("a caller whom the issuer refuses: %v", err)
	}
	before := len(idp.Exchanges())
	if _, err := get(sub); err == nil || len(idp.Exchanges()) != before {
		t.Errorf("the refusal is asked for again: %v", err)
	}
	idp.FailExchanges(nil)
	if third, err := get(shown()); err != nil || third == second { // a new token of the caller need not wait
		t.Errorf("after a refusal: %v", err)
	}
	if third, err := e.Token(t.Context(), s, shown(), Access{Token: second}); err != nil || third.Token == second {
		t.Errorf("in the place of a refused token: %v", err)
	}
	if entries, err := store.List(t.Context()); err != nil || len(entries) > 0 {
		t.Errorf("the store has %d records: %v", len(entries), err)
	}
}

// TestOwnIdentityAssertion: with an ID token in a file, weir gets an identity assertion of the identity
// provider, and for that a token of the server's authorization server. The ID token goes to the identity
// provider alone, and is read again for each token.
func TestOwnIdentityAssertion(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	people, peopleServer := fakeidp.Start(fakeidp.Options{ClientID: "weir-at-idp", Now: clock}, "/people")
	defer peopleServer.Close()
	chat, chatServer := fakeidp.Start(fakeidp.Options{ClientID: "weir-at-chat", ClientSecret: "0123456789abcdef", Now: clock}, "/chat")
	defer chatServer.Close()
	chat.Trust(people)
	c := New(Options{Store: vault.NewMemory(nil), Now: clock})
	defer func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	file := filepath.Join(t.TempDir(), "id.jwt")
	write := func(name string) string {
		t.Helper()
		token := people.Token(map[string]any{"sub": name, "exp": clock().Add(24 * time.Hour).Unix()})
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return token
	}
	first := write("robot")
	s := &Server{
		Name: "chat", URL: "http://127.0.0.1:1/mcp", Configured: true, Flow: FlowOwnIDJAG, AssertionFile: file,
		ClientID: "weir-at-chat", ClientSecret: "0123456789abcdef", Issuer: chat.Issuer(), Scopes: []string{"read"},
		Provider: Provider{Issuer: people.Issuer(), ClientID: "weir-at-idp"},
	}
	if _, _, err := c.Begin(t.Context(), s, "me", redirect); err == nil {
		t.Error("a person is sent to the issuer")
	}
	token, err := c.Token(t.Context(), s, Shared)
	if err != nil {
		t.Fatal(err)
	}
	if got := chat.Claims(string(token.Token)); got["sub"] != "robot" || got["scope"] != "read" || got["aud"] != s.URL {
		t.Errorf("the token has %v", got)
	}
	shown := people.Exchanges()
	if len(shown) != 1 || shown[0].Get("subject_token") != first || shown[0].Get("subject_token_type") != typeID || shown[0].Get("audience") != chat.Issuer() {
		t.Fatalf("the identity provider is asked %v", shown)
	}
	if at := chat.Exchanges(); len(at) != 1 || at[0].Get("assertion") == first || at[0].Get("assertion") == "" {
		t.Errorf("the authorization server is asked %v", at)
	}
	second := write("robot")
	mu.Lock()
	now = now.Add(50 * time.Minute)
	mu.Unlock()
	if next, err := c.Token(t.Context(), s, Shared); err != nil || next == token {
		t.Errorf("after 80 %% of the token's life: %v", err)
	}
	if shown := people.Exchanges(); len(shown) != 2 || shown[1].Get("subject_token") != second {
		t.Error("the file is not read again")
	}
	people.FailExchanges(map[string]any{"error": "invalid_grant", "error_description": "the token " + second + " has ended"})
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	if _, err := c.Token(t.Context(), s, Shared); err == nil || !strings.Contains(err.Error(), people.Issuer()) || strings.Contains(err.Error(), second) {
		t.Errorf("an identity provider that refuses: %v", err)
	}
}

// TestJoinedExchange: a caller that waits for the exchange of another one takes the token, and a failure
// only if it is that of the caller's own token.
func TestJoinedExchange(t *testing.T) {
	for name, one := range map[string]struct {
		fails bool
		asks  bool
	}{
		"a token":                  {},
		"a failure of the other's": {fails: true, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				c := New(Options{Store: vault.NewMemory(nil), Dial: func(context.Context, string, string) (net.Conn, error) {
					asked.Add(1)
					return nil, errors.New("the issuer is down")
				}})
				e := NewExchanger(c)
				s := &Server{Name: "crm", URL: "http://127.0.0.1:1/mcp", Flow: FlowTokenExchange, Issuer: "http://127.0.0.1:2", ClientID: "weir", ClientSecret: "0123456789abcdef"}
				sub := Subject{Principal: "corp:u1", Issuer: "corp", Token: "second"}
				id := exchangeID(s, &sub)
				release := make(chan struct{})
				go func() {
					_, _ = c.refreshes.do(t.Context(), id, func(context.Context) (*grant, error) {
						<-release
						if one.fails {
							e.noteFailed(id, sha256.Sum256([]byte("first")), errors.New("the first token has ended"))
							return nil, errors.New("the first token has ended")
						}
						g := &grant{Access: "new", Issued: time.Now(), Expires: time.Now().Add(time.Hour)}
						e.tokens.Put(id, g, 0)
						return g, nil
					})
				}()
				synctest.Wait()
				var got Access
				var err error
				over := make(chan struct{})
				go func() {
					defer close(over)
					got, err = e.Token(t.Context(), s, sub, Access{Token: "old"})
				}()
				synctest.Wait()
				close(release)
				<-over
				if n := asked.Load(); (n > 0) != one.asks {
					t.Errorf("%d connections to the issuer", n)
				}
				if one.fails {
					if k, _ := mcp.KindOf(err); k != mcp.KindIdentityUnavailable {
						t.Errorf("the failure: %v", err)
					}
				} else if got.Token != "new" || err != nil {
					t.Errorf("the token: %q, %v", got.Token, err)
				}
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
