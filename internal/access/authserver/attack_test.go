package authserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/access/authserver"
)

// TestRefusedOnThePage: requests whose redirect is not the client's are told to the person. The browser goes nowhere.
func TestRefusedOnThePage(t *testing.T) {
	w := newWorld(t, nil)
	verifier := newVerifier()
	for name, q := range map[string]url.Values{
		"unknown client":              request("nobody", appBack, verifier),
		"no client":                   request("", appBack, verifier),
		"no redirect":                 request("app", "", verifier),
		"another path":                request("app", appBack+"/more", verifier),
		"a final slash":               request("app", appBack+"/", verifier),
		"a query":                     request("app", appBack+"?x=1", verifier),
		"dots in the path":            request("app", "https://app.example/x/../back", verifier),
		"another host":                request("app", "https://app.example.evil.example/back", verifier),
		"a user":                      request("app", "https://app.example@evil.example/back", verifier),
		"a user before the host":      request("app", "https://evil@app.example/back", verifier),
		"a fragment":                  request("app", appBack+"#x", verifier),
		"a port":                      request("app", "https://app.example:8443/back", verifier),
		"http":                        request("app", "http://app.example/back", verifier),
		"capital letters":             request("app", "HTTPS://app.example/back", verifier),
		"a homoglyph":                 request("app", "https://аpp.example/back", verifier),
		"a dot of another alphabet":   request("app", "https://app。example/back", verifier),
		"a backslash":                 request("app", `https://evil.example\@app.example/back`, verifier),
		"a script":                    request("app", "javascript:alert(1)//"+appBack, verifier),
		"data":                        request("app", "data:text/html,x", verifier),
		"a tab":                       request("app", "https://app.example\t/back", verifier),
		"loopback with another host":  request("app", "http://localhost:4711/back", verifier),
		"loopback with another path":  request("app", "http://127.0.0.1:1/back2", verifier),
		"loopback with a user":        request("app", "http://127.0.0.1:1@evil.example/back", verifier),
		"loopback in another form":    request("app", "http://127.1:4711/back", verifier),
		"loopback with a name behind": request("app", "http://127.0.0.1.evil.example:4711/back", verifier),
		"loopback with a letter port": request("app", "http://127.0.0.1:evil/back", verifier),
		"two redirects": func() url.Values {
			q := request("app", appBack, verifier)
			q.Add("redirect_uri", "https://evil.example")
			return q
		}(),
	} {
		rec := w.ask("GET", base+authorizePath+"?"+q.Encode(), nil)
		if rec.Code != http.StatusBadRequest || rec.Header().Get("Location") != "" || strings.Contains(rec.Body.String(), "<form") {
			t.Errorf("%s: %d to %q", name, rec.Code, rec.Header().Get("Location"))
		}
	}
	for _, redirect := range []string{"http://127.0.0.1:9/back", "http://127.0.0.1/back", "http://localhost:1/other", appBack} {
		if rec := w.ask("GET", base+authorizePath+"?"+request("app", redirect, verifier).Encode(), nil); rec.Code != http.StatusOK {
			t.Errorf("%s is refused: %d %s", redirect, rec.Code, rec.Body)
		}
	}
}

// TestRefusedAtTheClient: other wrong requests are told to the client, with state and iss, so that it cannot take the
// answer for another server's.
func TestRefusedAtTheClient(t *testing.T) {
	w := newWorld(t, nil)
	verifier := newVerifier()
	two := request("app", appBack, verifier)
	two.Add("resource", base)
	for name, c := range map[string]struct {
		q    url.Values
		code string
	}{
		"no PKCE":                    {request("app", appBack, verifier, "code_challenge", ""), "invalid_request"},
		"PKCE as plain":              {request("app", appBack, verifier, "code_challenge_method", "plain"), "invalid_request"},
		"PKCE without its method":    {request("app", appBack, verifier, "code_challenge_method", ""), "invalid_request"},
		"a short challenge":          {request("app", appBack, verifier, "code_challenge", "abc"), "invalid_request"},
		"implicit":                   {request("app", appBack, verifier, "response_type", "token"), "unsupported_response_type"},
		"hybrid":                     {request("app", appBack, verifier, "response_type", "code id_token"), "unsupported_response_type"},
		"an answer in the fragment":  {request("app", appBack, verifier, "response_mode", "fragment"), "invalid_request"},
		"no resource":                {request("app", appBack, verifier, "resource", ""), "invalid_target"},
		"two resources":              {two, "invalid_target"},
		"another's resource":         {request("app", appBack, verifier, "resource", "https://mcp.example/mcp"), "invalid_target"},
		"a resource that starts so":  {request("app", appBack, verifier, "resource", base+".evil.example/mcp"), "invalid_target"},
		"a resource with a user":     {request("app", appBack, verifier, "resource", base+"@evil.example/mcp"), "invalid_target"},
		"a resource with dots":       {request("app", appBack, verifier, "resource", base+"/mcp/../mcps/x/mcp"), "invalid_target"},
		"a resource with escapes":    {request("app", appBack, verifier, "resource", base+"/mcp%2fx"), "invalid_target"},
		"a resource with a fragment": {request("app", appBack, verifier, "resource", base+"/mcp#x"), "invalid_target"},
		"a path that is none":        {request("app", appBack, verifier, "resource", base+"/console"), "invalid_target"},
		"a request object":           {request("app", appBack, verifier, "request", "e30.e30."), "request_not_supported"},
		"without a person":           {request("app", appBack, verifier, "prompt", "none"), "login_required"},
	} {
		rec := w.ask("GET", base+authorizePath+"?"+c.q.Encode(), nil)
		back, err := rec.Result().Location()
		if err != nil || !strings.HasPrefix(back.String(), appBack+"?") {
			t.Errorf("%s: %d %v", name, rec.Code, back)
			continue
		}
		if q := back.Query(); q.Get("error") != c.code || q.Get("state") != "st" || q.Get("iss") != base || q.Has("code") {
			t.Errorf("%s: %v", name, back)
		}
	}
}

// TestForgedPages: forms of other pages, of other browsers and of other sign-ins count for nothing.
func TestForgedPages(t *testing.T) {
	w := newWorld(t, nil)
	verifier := newVerifier()
	w.jar = map[string]string{}
	attackers := w.passwordPage(request("app", appBack, verifier))
	theirs := w.jar
	w.jar = map[string]string{}
	if rec := w.enter(attackers, "right"); rec.Code != http.StatusBadRequest {
		t.Errorf("a sign-in of another browser goes on: %d", rec.Code)
	}
	w.jar = theirs
	page := w.enter(attackers, "right")
	consent := w.hidden(page)
	for name, value := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if !strings.Contains(page.Header().Get(name), value) {
			t.Errorf("%s: %q", name, page.Header().Get(name))
		}
	}
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://app.example;") || strings.Contains(page.Body.String(), "<script") {
		t.Errorf("the page may do too much: %s", policy)
	}
	decide := func(text, decision string) int {
		return w.ask("POST", base+consentPath, url.Values{"request": {text}, "decision": {decision}}).Code
	}
	w.jar = map[string]string{}
	if code := decide(consent, "allow"); code != http.StatusBadRequest {
		t.Errorf("a consent without the cookie: %d", code)
	}
	w.jar = theirs
	for _, forged := range []string{consent[:11] + "x", consent + "x", "", "x", consent[:10]} {
		if code := decide(forged, "allow"); code != http.StatusBadRequest {
			t.Errorf("a consent with %q: %d", forged, code)
		}
	}
	if code := decide(consent, "deny"); code != http.StatusSeeOther {
		t.Errorf("deny: %d", code)
	}
	w.jar = theirs
	if code := decide(consent, "allow"); code != http.StatusBadRequest {
		t.Errorf("a consent after the decision: %d", code)
	}
}

// TestConsent: it is asked for again by what is wider, and each time for a program of the machine.
func TestConsent(t *testing.T) {
	asks := func(w *world, q url.Values) bool {
		return strings.Contains(w.enter(w.passwordPage(q), "right").Body.String(), "Allow")
	}
	w := newWorld(t, nil)
	v := newVerifier()
	w.browse(request("app", appBack, v))
	w.browse(request("app", loopBack, v))
	for name, c := range map[string]struct {
		q   url.Values
		ask bool
	}{
		"the same":         {request("app", appBack, v), false},
		"a further scope":  {request("app", appBack, v, "scope", "mcp admin"), true},
		"another resource": {request("app", appBack, v, "resource", base+"/mcp/support"), true},
		"another client":   {request("other", appBack, v), true},
		"prompt":           {request("app", appBack, v, "prompt", "consent"), true},
		"a loopback":       {request("app", loopBack, v), true},
	} {
		if got := asks(w, c.q); got != c.ask {
			t.Errorf("%s: asked %v", name, got)
		}
	}
	w.p.AlwaysConsent = true
	w.s.Apply(&w.p)
	if !asks(w, request("app", appBack, v)) {
		t.Error("always: not asked")
	}
}

// TestNamesOfClientsAreText: what a client says about itself is no HTML and no hidden text.
func TestNamesOfClientsAreText(t *testing.T) {
	w := newWorld(t, nil)
	rec := w.ask("POST", base+registerPath, nil)
	if rec.Code != http.StatusBadRequest {
		t.Fatal(rec.Code)
	}
	id := w.registered(`{"client_name": "<b>Bank</b>\u202e<script>x</script>", "redirect_uris": ["https://evil.example/back"]}`)
	body := w.enter(w.passwordPage(request(id, "https://evil.example/back", newVerifier())), "right").Body.String()
	if strings.Contains(body, "<b>") || strings.Contains(body, "<script") || strings.Contains(body, "\u202e") || !strings.Contains(body, "evil.example") || !strings.Contains(body, "Nobody vouches") {
		t.Error(body)
	}
}

// TestPasswords: wrong ones cost more and more time, names that do not exist look the same, and a lock ends.
func TestPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		page := w.passwordPage(request("app", appBack, newVerifier()))
		known := w.enter(page, "wrong")
		unknown := w.ask("POST", base+signInPath, url.Values{"request": {page}, "name": {"eve"}, "password": {"wrong"}})
		if known.Code != unknown.Code || known.Code != http.StatusUnauthorized || strings.ReplaceAll(text(known.Body.String()), "ann", "eve") != text(unknown.Body.String()) {
			t.Errorf("a name tells whether it exists: %d %d", known.Code, unknown.Code)
		}
		tried := 0
		for tried < 20 && w.enter(page, "wrong").Code == http.StatusUnauthorized {
			tried++
		}
		if tried > 6 {
			t.Errorf("%d passwords at once", tried)
		}
		if code := w.enter(page, "right").Code; code != http.StatusTooManyRequests {
			t.Errorf("the right password while the name waits: %d", code)
		}
		time.Sleep(5 * time.Minute)
		if code := w.enter(page, "right").Code; code != http.StatusOK {
			t.Errorf("after the wait: %d", code)
		}
	})
}

// text returns a page without what differs each time.
func text(page string) string {
	at := strings.Index(page, "<main>")
	return page[at:]
}

// TestCodes: a code works once, for its client, with its verifier, and for a minute.
func TestCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		get := func() (string, *url.URL) {
			v := newVerifier()
			return v, w.browse(request("app", appBack, v))
		}
		for name, c := range map[string]struct {
			client string
			change []string
			code   string
		}{
			"another client":     {"other", nil, "invalid_grant"},
			"no verifier":        {"app", []string{"code_verifier", ""}, "invalid_grant"},
			"another verifier":   {"app", []string{"code_verifier", newVerifier()}, "invalid_grant"},
			"another redirect":   {"app", []string{"redirect_uri", loopBack}, "invalid_grant"},
			"another resource":   {"app", []string{"resource", base + "/mcp/support"}, "invalid_target"},
			"another's resource": {"app", []string{"resource", "https://mcp.example/mcp"}, "invalid_target"},
			"no code":            {"app", []string{"code", "x"}, "invalid_grant"},
			"another grant":      {"app", []string{"grant_type", "password"}, "unsupported_grant_type"},
		} {
			v, back := get()
			if a := w.exchange(c.client, appBack, v, back, c.change...); a.status != http.StatusBadRequest || a.text("error") != c.code {
				t.Errorf("%s: %v", name, a)
			}
		}
		v, back := get()
		first := w.exchange("app", appBack, v, back)
		if first.status != http.StatusOK || w.opens(first.text("access_token"), "/mcp") != nil {
			t.Fatal(first)
		}
		if a := w.exchange("app", appBack, v, back); a.text("error") != "invalid_grant" {
			t.Errorf("a code works twice: %v", a)
		}
		if a := w.refresh("app", first.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("the refresh token of a stolen code works: %v", a)
		}
		if w.opens(first.text("access_token"), "/mcp") == nil {
			t.Error("the access token of a stolen code works")
		}
		v, back = get()
		time.Sleep(61 * time.Second)
		if a := w.exchange("app", appBack, v, back); a.text("error") != "invalid_grant" {
			t.Errorf("a code works after a minute: %v", a)
		}
	})
}

// TestParallelCodes: of many exchanges of one code, at two nodes, at most one has tokens.
func TestParallelCodes(t *testing.T) {
	w := newWorld(t, nil)
	v := newVerifier()
	back := w.browse(request("app", appBack, v))
	second := &world{t: t, docs: w.docs, key: w.key, p: w.p, o: w.o, s: w.node(), jar: map[string]string{}}
	var ok atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		at := []*world{w, second}[i%2]
		all.Go(func() {
			if at.exchange("app", appBack, v, back).status == http.StatusOK {
				ok.Add(1)
			}
		})
	}
	all.Wait()
	if ok.Load() > 1 {
		t.Errorf("%d exchanges", ok.Load())
	}
}

// TestRefreshTokens: the newest one works. The one before works while its answer may have been lost, and later ends the
// sign-in.
func TestRefreshTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := w.signedIn("mcp")
		second := w.refresh("app", first.text("refresh_token"))
		again := w.refresh("app", first.text("refresh_token"))
		if second.status != http.StatusOK || again.status != http.StatusOK || again.text("refresh_token") != second.text("refresh_token") {
			t.Errorf("a lost answer: %v, %v", second, again)
		}
		for name, a := range map[string]answer{
			"another client":   w.refresh("other", second.text("refresh_token")),
			"a forged one":     w.refresh("app", strings.Replace(second.text("refresh_token"), ".1.", ".2.", 1)),
			"an access token":  w.refresh("app", second.text("access_token")),
			"an unknown one":   w.refresh("app", "weir_rt_x.1.y"),
			"an empty one":     w.refresh("app", ""),
			"another resource": w.refresh("app", second.text("refresh_token"), "resource", base+"/mcp/support"),
			"a wider scope":    w.refresh("app", second.text("refresh_token"), "scope", "admin"),
		} {
			if a.status != http.StatusBadRequest {
				t.Errorf("%s: %v", name, a)
			}
		}
		time.Sleep(31 * time.Second)
		if a := w.refresh("app", first.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("a used refresh token: %v", a)
		}
		if a := w.refresh("app", second.text("refresh_token")); a.text("error") != "invalid_grant" || w.opens(second.text("access_token"), "/mcp") == nil {
			t.Errorf("the newest one after a theft: %v", a)
		}
		if !strings.Contains(strings.Join(w.told, ","), "reused account:ann") {
			t.Errorf("told %q", w.told)
		}
		third := w.signedIn("mcp")
		w.p.Accounts = nil
		w.s.Apply(&w.p)
		if a := w.refresh("app", third.text("refresh_token")); a.text("error") != "invalid_grant" || w.opens(third.text("access_token"), "/mcp") == nil {
			t.Errorf("a person without an account: %v", a)
		}
	})
}

// TestTokensOpenTheirResource: no other path, no other kind of token, no other signature, and no other time.
func TestTokensOpenTheirResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.signedIn("mcp openid")
		token := a.text("access_token")
		if err := w.opens(token, "/mcp"); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/mcp/support", "/mcps/up/mcp", "/console"} {
			if w.opens(token, path) == nil {
				t.Errorf("a token of /mcp opens %s", path)
			}
		}
		if w.opens(a.text("id_token"), "/mcp") == nil || a.text("id_token") == "" {
			t.Error("an ID token opens the gateway")
		}
		claims := jwt.MapClaims{}
		parsed, _, err := jwt.NewParser().ParseUnverified(token, claims)
		if err != nil {
			t.Fatal(err)
		}
		kid := parsed.Header["kid"]
		foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		forge := func(method jwt.SigningMethod, key any, header map[string]any) string {
			forged := jwt.NewWithClaims(method, claims)
			forged.Header["kid"], forged.Header["typ"] = kid, "at+jwt"
			for name, value := range header {
				forged.Header[name] = value
			}
			text, err := forged.SignedString(key)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		for name, text := range map[string]string{
			"no signature":      forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
			"HMAC":              forge(jwt.SigningMethodHS256, []byte("public"), nil),
			"another key":       forge(jwt.SigningMethodES256, foreign, nil),
			"a key in itself":   forge(jwt.SigningMethodES256, foreign, map[string]any{"jwk": map[string]any{"kty": "EC"}}),
			"a key of a URL":    forge(jwt.SigningMethodES256, foreign, map[string]any{"jku": "https://evil.example/keys"}),
			"an unknown key":    forge(jwt.SigningMethodES256, foreign, map[string]any{"kid": "x"}),
			"another signature": token[:len(token)-4] + "AAAA",
			"another kind":      forge(jwt.SigningMethodES256, foreign, map[string]any{"typ": "JWT"}),
		} {
			if w.opens(text, "/mcp") == nil {
				t.Errorf("%s opens the gateway", name)
			}
		}
		time.Sleep(10*time.Minute + 59*time.Second) // clocks may differ by a minute
		if err := w.opens(token, "/mcp"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if w.opens(token, "/mcp") == nil {
			t.Error("a token works after its time")
		}
	})
}

// TestClientsShowWhoTheyAre: secrets and assertions, one of them, in the right place, and assertions once.
func TestClientsShowWhoTheyAre(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(p *authserver.Policy) {
		p.Clients = append(p.Clients, authserver.Client{ID: "signer", Keys: jwks(private)})
	})
	ask := func(form url.Values, more ...string) answer {
		form.Set("grant_type", "client_credentials")
		if !form.Has("resource") {
			form.Set("resource", base+"/mcp")
		}
		return w.post(tokenPath, form, more...)
	}
	good := ask(url.Values{"client_id": {"robot"}, "client_secret": {secret}})
	if good.status != http.StatusOK || good.text("refresh_token") != "" || good.text("scope") != "mcp" || w.opens(good.text("access_token"), "/mcp") != nil {
		t.Errorf("a secret: %v", good)
	}
	n := 0
	assertion := func(method jwt.SigningMethod, key any, change jwt.MapClaims) string {
		n++
		claims := jwt.MapClaims{"iss": "signer", "sub": "signer", "aud": base, "exp": time.Now().Add(time.Minute).Unix(), "jti": fmt.Sprint(n)}
		for name, value := range change {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
		}
		text, err := jwt.NewWithClaims(method, claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	signed := func(text string) answer {
		return ask(url.Values{"client_assertion": {text}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}})
	}
	once := assertion(jwt.SigningMethodES256, private, nil)
	if a := signed(once); a.status != http.StatusOK {
		t.Errorf("an assertion: %v", a)
	}
	for name, a := range map[string]answer{
		"a wrong secret":             ask(url.Values{"client_id": {"robot"}, "client_secret": {"wrong"}}),
		"no secret":                  ask(url.Values{"client_id": {"robot"}}),
		"an assertion twice":         signed(once),
		"an assertion for others":    signed(assertion(jwt.SigningMethodES256, private, jwt.MapClaims{"aud": "https://id.example"})),
		"an old assertion":           signed(assertion(jwt.SigningMethodES256, private, jwt.MapClaims{"exp": time.Now().Add(-time.Minute).Unix()})),
		"a lasting assertion":        signed(assertion(jwt.SigningMethodES256, private, jwt.MapClaims{"exp": time.Now().Add(time.Hour).Unix()})),
		"an assertion of the future": signed(assertion(jwt.SigningMethodES256, private, jwt.MapClaims{"nbf": time.Now().Add(time.Minute).Unix()})),
		"an assertion without jti":   signed(assertion(jwt.SigningMethodES256, private, jwt.MapClaims{"jti": nil})),
		"an assertion of another":    signed(assertion(jwt.SigningMethodES256, private, jwt.MapClaims{"iss": "app"})),
		"an unsigned assertion":      signed(assertion(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil)),
		"an assertion by HMAC":       signed(assertion(jwt.SigningMethodHS256, []byte("x"), nil)),
		"a public client":            ask(url.Values{"client_id": {"app"}}),
		"a public client's secret":   ask(url.Values{"client_id": {"app"}, "client_secret": {secret}}),
		"two ways":                   ask(url.Values{"client_id": {"robot"}, "client_secret": {secret}, "client_assertion": {"x"}}),
		"two clients":                ask(url.Values{"client_id": {"app"}}, "Authorization", "Basic cm9ib3Q6eA=="),
		"no resource":                ask(url.Values{"client_id": {"robot"}, "client_secret": {secret}, "resource": {""}}),
	} {
		if a.status != http.StatusUnauthorized && a.status != http.StatusBadRequest || a.text("access_token") != "" {
			t.Errorf("%s: %v", name, a)
		}
	}
	rec := w.ask("POST", base+tokenPath+"?client_id=robot&client_secret="+secret+"&grant_type=client_credentials&resource="+base+"/mcp", url.Values{})
	if rec.Code == http.StatusOK {
		t.Error("a secret in the URL is taken")
	}
}
