package signin_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin"
	"github.com/weir-mcp/weir/internal/store"
)

// keeper keeps the credential team of each caller at the server jira.
type keeper map[string]string

func (k keeper) Names(_ context.Context, caller *identity.Identity, server string) ([]signin.Text, error) {
	switch {
	case server == "closed":
		return nil, errors.New("not for you")
	case server != "jira":
		return nil, nil
	}
	return []signin.Text{{Name: "team", Stored: k[caller.Principal] != ""}}, nil
}

func (k keeper) Keep(ctx context.Context, caller *identity.Identity, _, name, text string) error {
	if name != "team" || identity.From(ctx) != caller {
		return errors.New("there is no " + name)
	}
	k[caller.Principal] = text
	return nil
}

func (k keeper) Remove(_ context.Context, caller *identity.Identity, _, _ string) error {
	delete(k, caller.Principal)
	return nil
}

// TestTexts stores, replaces and removes a credential at its page, which never shows it.
func TestTexts(t *testing.T) {
	k := keeper{}
	pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: &provider{}, Texts: k, Front: signin.Front{
		Base: "https://weir.example.com",
		Authenticate: func(_ *http.Request, token string) (*identity.Identity, error) {
			if token != "token-of-ann" {
				return nil, errors.New("no")
			}
			return &identity.Identity{Principal: "ann"}, nil
		},
	}})
	const at = "/connect/jira"
	first := visit(pages, http.MethodGet, at, nil, nil)
	stranger := first.Result().Cookies()
	form := formField.FindStringSubmatch(first.Body.String())[1]
	if strings.Contains(first.Body.String(), "team") {
		t.Error("a stranger reads which credentials the server needs")
	}
	if w := visit(pages, http.MethodPost, at, url.Values{"form": {form}, "credential": {"team"}, "text": {"secret-1"}}, stranger); len(k) > 0 {
		t.Errorf("a stranger stores a credential: %d %v", w.Code, k)
	}
	w := visit(pages, http.MethodPost, at, url.Values{"form": {form}, "token": {"token-of-ann"}}, stranger)
	cookies := w.Result().Cookies()
	show := func() (body, form string) {
		w := visit(pages, http.MethodGet, at, nil, cookies)
		found := formField.FindStringSubmatch(w.Body.String())
		if w.Code != http.StatusOK || found == nil || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("the page: %d %s", w.Code, w.Body)
		}
		return w.Body.String(), found[1]
	}
	body, form := show()
	if !strings.Contains(body, `name="credential" value="team"`) || strings.Contains(body, "Remove team") {
		t.Errorf("the page has no field: %s", body)
	}
	if visit(pages, http.MethodPost, at, url.Values{"form": {strings.Repeat("0", 64)}, "credential": {"team"}, "text": {"secret-1"}}, cookies); len(k) > 0 {
		t.Error("a form of another page stores a credential")
	}
	for _, text := range []string{"secret-1", "secret-2"} {
		w := visit(pages, http.MethodPost, at, url.Values{"form": {form}, "credential": {"team"}, "text": {text}}, cookies)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != at || k["ann"] != text {
			t.Errorf("storing %s: %d, %v", text, w.Code, k)
		}
	}
	if body, _ := show(); !strings.Contains(body, "Remove team") || !strings.Contains(body, "Replace") {
		t.Errorf("a stored credential: %s", body)
	}
	if w := visit(pages, http.MethodPost, at, url.Values{"form": {form}, "credential": {"other"}, "text": {"secret-3"}}, cookies); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "there is no other") || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("an unknown credential: %d %s", w.Code, w.Body)
	}
	if w := visit(pages, http.MethodPost, at, url.Values{"form": {form}, "remove": {"team"}}, cookies); w.Code != http.StatusSeeOther || len(k) > 0 {
		t.Errorf("removing: %d, %v", w.Code, k)
	}
	if w := visit(pages, http.MethodGet, "/connect/closed", nil, cookies); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "not for you") {
		t.Errorf("a server that is closed to the caller: %d", w.Code)
	}
	if w := visit(pages, http.MethodGet, "/connect/notes", nil, cookies); !strings.Contains(w.Body.String(), "Sign in at notes") {
		t.Errorf("a server with a sign-in: %s", w.Body)
	}
}
