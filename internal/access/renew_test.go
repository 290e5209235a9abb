package access_test

import (
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/access"
)

// loggedIn logs a person in who stays so.
func (w world) loggedIn(wish access.LoginWish) (*access.LoggedIn, url.Values) {
	w.t.Helper()
	began, err := w.a.BeginLogin(w.t.Context(), back, wish)
	if err != nil {
		w.t.Fatal(err)
	}
	asked, err := url.Parse(began.Address)
	if err != nil {
		w.t.Fatal(err)
	}
	in, err := w.a.FinishLogin(w.t.Context(), began.Memo, w.browse(began.Address))
	if err != nil {
		w.t.Fatal(err)
	}
	return in, asked.Query()
}

// TestRenewLogin: a person is looked up again by the refresh token, with the groups of now.
func TestRenewLogin(t *testing.T) {
	inWorld(t, withLogin, func(w world) {
		w.idp.SetIDToken(map[string]any{"groups": []string{"sre"}, "sid": "s1"})
		in, asked := w.loggedIn(access.LoginWish{Hint: "ann@corp.example", Offline: true})
		if asked.Get("login_hint") != "ann@corp.example" || in.Refresh == "" || in.Session != "s1" {
			t.Errorf("%v, %+v", asked, in)
		}
		w.idp.SetIDToken(map[string]any{"groups": []string{"dev"}, "nonce": nil})
		next, err := w.a.RenewLogin(w.t.Context(), *in)
		if err != nil || !slices.Equal(next.Groups, []string{"dev"}) || next.Refresh == in.Refresh || next.Session != "s1" || next.Bearer != "" {
			t.Fatalf("%+v, %v", next, err)
		}
		if _, err := w.a.RenewLogin(w.t.Context(), *in); !errors.Is(err, access.ErrLoginEnded) {
			t.Errorf("a used refresh token: %v", err)
		}
		w.idp.SetIDToken(map[string]any{"sub": "u2", "nonce": nil})
		if _, err := w.a.RenewLogin(w.t.Context(), *next); !errors.Is(err, access.ErrLoginEnded) {
			t.Errorf("another person: %v", err)
		}
		w.idp.Outage(true)
		if _, err := w.a.RenewLogin(w.t.Context(), *next); err == nil || errors.Is(err, access.ErrLoginEnded) {
			t.Errorf("an outage ends a login: %v", err)
		}
	})
}
