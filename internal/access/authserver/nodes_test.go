package authserver_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access/authserver"
)

// claims returns the claims of a JWT as they stand there.
func claims(t *testing.T, token string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token+"..", ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestNodesAndRestarts: a sign-in that one node starts goes on at another one, and after a restart.
func TestNodesAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		nodes := []*authserver.Server{w.s, w.node()}
		at := func(i int) { w.s = nodes[i%2] }
		client := w.registered(`{"redirect_uris": ["https://app.example/back"], "token_endpoint_auth_method": "none"}`)
		v := newVerifier()
		at(1)
		page := w.passwordPage(request(client, appBack, v))
		at(0)
		consent := w.hidden(w.enter(page, "right"))
		at(1)
		rec := w.ask("POST", base+consentPath, map[string][]string{"request": {consent}, "decision": {"allow"}})
		back, err := rec.Result().Location()
		if err != nil {
			t.Fatal(rec.Code)
		}
		at(0)
		first := w.exchange(client, appBack, v, back)
		at(1)
		if err := w.opens(first.text("access_token"), "/mcp"); err != nil {
			t.Error(err)
		}
		second := w.refresh(client, first.text("refresh_token"))
		if second.status != http.StatusOK {
			t.Fatal(second)
		}
		nodes = []*authserver.Server{w.node(), w.node()}
		at(0)
		third := w.refresh(client, second.text("refresh_token"))
		if third.status != http.StatusOK || w.opens(first.text("access_token"), "/mcp") != nil {
			t.Errorf("after a restart: %v", third)
		}
		if a := w.post(revokePath, map[string][]string{"client_id": {client}, "token": {third.text("refresh_token")}}); a.status != http.StatusOK {
			t.Error(a)
		}
		at(1)
		synctest.Wait()
		if w.opens(third.text("access_token"), "/mcp") == nil {
			t.Error("an ended sign-in works at the other node")
		}
	})
}

// TestKeysRotate: each 30 days another key signs, which was published before, and tokens of the one before stay good.
func TestKeysRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(p *authserver.Policy) { p.RefreshTime = 300 * 24 * time.Hour })
		other := w.node()
		kid := func(a answer) string {
			head, err := base64.RawURLEncoding.DecodeString(strings.Split(a.text("access_token"), ".")[0])
			if err != nil {
				t.Fatal(err)
			}
			return string(head)
		}
		published := func() int {
			return strings.Count(w.ask("GET", base+keysPath, nil).Body.String(), `"kid"`)
		}
		a := w.signedIn("mcp")
		if published() != 1 {
			t.Error("more than one key at the start")
		}
		time.Sleep(30*24*time.Hour - time.Minute)
		before := w.refresh("app", a.text("refresh_token"))
		time.Sleep(2 * time.Minute)
		if published() != 2 {
			t.Error("the next key is not published")
		}
		during := w.refresh("app", before.text("refresh_token"))
		if kid(during) != kid(before) {
			t.Error("a key signs before it is known")
		}
		time.Sleep(11 * time.Minute)
		after := w.refresh("app", during.text("refresh_token"))
		if kid(after) == kid(before) {
			t.Error("the old key signs")
		}
		w.s = other
		if err := w.opens(after.text("access_token"), "/mcp"); err != nil {
			t.Errorf("at the other node: %v", err)
		}
		for range 10 {
			time.Sleep(31 * 24 * time.Hour)
			if n := published(); n > 4 {
				t.Fatalf("%d keys", n)
			}
		}
	})
}

// TestGrantsOfOnePersonAreBounded: the oldest one ends for a new one.
func TestGrantsOfOnePersonAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := w.signedIn("mcp")
		var last answer
		for range 50 {
			last = w.signedIn("mcp")
		}
		if w.opens(first.text("access_token"), "/mcp") == nil || w.opens(last.text("access_token"), "/mcp") != nil {
			t.Error("the first of 51 sign-ins works, or the last one does not")
		}
		count := 0
		for _, err := range w.docs.List(t.Context(), "as.grant.") {
			if err != nil {
				t.Fatal(err)
			}
			count++
		}
		if count != 50 {
			t.Errorf("%d grants", count)
		}
	})
}

// TestNothingIsKeptForStrangers: requests without a person leave no document.
func TestNothingIsKeptForStrangers(t *testing.T) {
	w := newWorld(t, nil)
	for range 50 {
		w.ask("GET", base+authorizePath+"?"+request("app", appBack, newVerifier()).Encode(), nil)
		w.post(pushPath, request("app", appBack, newVerifier()))
		w.refresh("app", "weir_rt_x.1.y")
	}
	for d, err := range w.docs.List(t.Context(), "as.") {
		t.Errorf("%s, %v", d.Key, err)
	}
}

// TestDocumentsAreSealed: the store has no name, no group and no token in the clear.
func TestDocumentsAreSealed(t *testing.T) {
	w := newWorld(t, nil)
	w.signedIn("mcp")
	for d, err := range w.docs.List(t.Context(), "as.") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(string(d.Value), `{}" `) {
			t.Errorf("%s is in the clear: %s", d.Key, d.Value)
		}
	}
}

// TestDeeds: each step of a person and of a client is told, with the person's name.
func TestDeeds(t *testing.T) {
	w := newWorld(t, nil)
	id := w.registered(`{"redirect_uris": ["https://app.example/back"]}`)
	v := newVerifier()
	consent := w.hidden(w.enter(w.passwordPage(request(id, appBack, v)), "right"))
	w.ask("POST", base+consentPath, map[string][]string{"request": {consent}, "decision": {"deny"}})
	back := w.browse(request(id, appBack, v, "scope", "mcp openid"))
	a := w.exchange(id, appBack, v, back)
	b := w.refresh(id, a.text("refresh_token"))
	w.post(revokePath, map[string][]string{"client_id": {id}, "token": {b.text("refresh_token")}})
	w.exchange(id, appBack, v, back)
	c := w.signedIn("mcp openid")
	w.ask("GET", base+logoutPath+"?id_token_hint="+c.text("id_token"), nil)
	told := strings.Join(w.told, ", ")
	for _, deed := range []authserver.Deed{
		authserver.SignedIn, authserver.Consented, authserver.Denied, authserver.Issued, authserver.Renewed, authserver.Revoked, authserver.Reused, authserver.LoggedOut,
	} {
		if !strings.Contains(told, string(deed)+" account:ann") {
			t.Errorf("%q is not told: %s", deed, told)
		}
	}
	if !strings.Contains(told, string(authserver.Registered)) {
		t.Errorf("a registration is not told: %s", told)
	}
}
