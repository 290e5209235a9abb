package access_test

import (
	"bytes"
	"encoding/base64"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// TestUnknownKidCausesOneFetch: strangers must not make weir flood an issuer.
func TestUnknownKidCausesOneFetch(t *testing.T) {
	inWorld(t, nil, func(w world) {
		time.Sleep(time.Minute)
		stranger := fakeidp.NewSigner("ES256")
		token := func(kid string) string {
			return stranger.Sign(map[string]any{"kid": kid}, map[string]any{"iss": issuer, "sub": "u1", "aud": mcpURL, "exp": time.Now().Add(time.Hour).Unix()})
		}
		before := w.idp.Requests(jwks)
		for range 10 {
			go func() { w.wants("unknown kid", token("x"), "unauthorized") }()
		}
		synctest.Wait()
		w.wants("another unknown kid", token("y"), "unauthorized")
		time.Sleep(29 * time.Second)
		w.wants("again", token("z"), "unauthorized")
		if got := w.idp.Requests(jwks) - before; got != 1 {
			t.Errorf("%d fetches within 30 s, want 1", got)
		}
		time.Sleep(time.Second)
		w.wants("later", token("z"), "unauthorized")
		if got := w.idp.Requests(jwks) - before; got != 2 {
			t.Errorf("%d fetches after 30 s, want 2", got)
		}
	})
}

// TestUnknownIssuerFetchesNothing: iss is a text that is compared, never an address.
func TestUnknownIssuerFetchesNothing(t *testing.T) {
	inWorld(t, nil, func(w world) {
		before := w.idp.Requests(jwks)
		for _, iss := range []string{"https://id.example", issuer + "/", "https://evil.example", "HTTPS://id.example/t"} {
			w.wants(iss, w.idp.Token(with("iss", iss)), "unauthorized")
		}
		if got := w.idp.Requests(jwks) - before; got != 0 {
			t.Errorf("%d fetches", got)
		}
	})
}

func TestRotation(t *testing.T) {
	inWorld(t, nil, func(w world) {
		time.Sleep(time.Minute)
		w.idp.Rotate("EdDSA")
		w.wants("a new key", w.idp.Token(with()), "")
		old := w.idp.Signer()
		w.idp.Rotate("ES256")
		w.idp.Retire()
		time.Sleep(2 * time.Hour) // the old key is not fresh any more
		w.wants("a withdrawn key", old.Sign(nil, map[string]any{"iss": issuer, "sub": "u1", "aud": mcpURL, "exp": time.Now().Add(time.Hour).Unix()}), "unauthorized")
	})
}

// TestKeysAreFetchedAhead: a fetch of fresh keys delays no caller while the old ones are good.
func TestKeysAreFetchedAhead(t *testing.T) {
	for cache, age := range map[string]time.Duration{"": time.Hour, "max-age=3600": time.Hour, "max-age=10": 5 * time.Minute, "max-age=999999": 24 * time.Hour, "no-store": 5 * time.Minute} {
		inWorld(t, func(_ *access.Policy, o *fakeidp.Options) { o.CacheControl = cache }, func(w world) {
			time.Sleep(age*4/5 - time.Second)
			w.wants("fresh", w.idp.Token(with()), "")
			if got := w.idp.Requests(jwks); got != 1 {
				t.Errorf("%q: %d fetches before 80 %%", cache, got)
			}
			time.Sleep(2 * time.Second)
			w.wants("nearly stale", w.idp.Token(with()), "")
			synctest.Wait()
			if got := w.idp.Requests(jwks); got != 2 {
				t.Errorf("%q: %d fetches after 80 %%, want 2", cache, got)
			}
		})
	}
}

// TestIssuerOutage: known keys go on for a day; unknown ones are 503, because after a 401 clients
// throw a good token away.
func TestIssuerOutage(t *testing.T) {
	inWorld(t, nil, func(w world) {
		w.wants("before", w.idp.Token(with()), "")
		w.idp.Outage(true)
		for range 20 {
			time.Sleep(time.Hour)
			w.wants("in the outage", w.idp.Token(with()), "")
		}
		fresh := fakeidp.NewSigner("ES256").Sign(nil, map[string]any{"iss": issuer, "sub": "u1", "aud": mcpURL, "exp": time.Now().Add(time.Hour).Unix()})
		w.wants("unknown kid in the outage", fresh, "identity_unavailable")
		time.Sleep(6 * time.Hour)
		w.wants("after more than a day", w.idp.Token(with()), "identity_unavailable")
		w.idp.Outage(false)
		time.Sleep(31 * time.Second)
		w.wants("after the outage", w.idp.Token(with()), "")
	})
}

// TestIssuerDownAtStart: weir starts, says 503, and recovers without a restart.
func TestIssuerDownAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idp := fakeidp.New(fakeidp.Options{Issuer: issuer})
		idp.Unreachable(true)
		w := world{t: t, idp: idp, a: access.New(access.Options{Client: idp.Client()})}
		defer w.a.Close()
		w.a.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer}}})
		synctest.Wait()
		w.wants("down", idp.Token(with()), "identity_unavailable")
		idp.Unreachable(false)
		time.Sleep(5 * time.Second)
		w.wants("up", idp.Token(with()), "")
	})
}

// TestReload: what an earlier policy allowed is forgotten, the keys are not.
func TestReload(t *testing.T) {
	inWorld(t, nil, func(w world) {
		token := w.idp.Token(with())
		w.wants("first", token, "")
		w.idp.Outage(true)
		w.a.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer, Require: map[string]string{"tid": "t1"}}}})
		w.wants("after a stricter policy", token, "unauthorized")
		w.wants("good in the outage", w.idp.Token(with("tid", "t1")), "")
		w.a.Apply(access.Policy{PublicURL: public})
		w.wants("without the issuer", token, "unauthorized")
	})
}

// TestCachedTokenExpires: the cache does not lengthen a token's life.
func TestCachedTokenExpires(t *testing.T) {
	inWorld(t, nil, func(w world) {
		token := w.idp.Token(with("exp", time.Now().Add(30*time.Second).Unix()))
		w.wants("fresh", token, "")
		time.Sleep(89 * time.Second)
		w.wants("within the leeway", token, "")
		time.Sleep(2 * time.Second)
		w.wants("expired", token, "unauthorized")
	})
}

func TestMetadataOfAnotherIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idp := fakeidp.New(fakeidp.Options{Issuer: issuer})
		idp.SetMetadata(map[string]any{"issuer": issuer + "/"})
		w := world{t: t, idp: idp, a: access.New(access.Options{Client: idp.Client()})}
		defer w.a.Close()
		w.a.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer}}})
		w.wants("metadata with a slash", idp.Token(with()), "identity_unavailable")
		if got := idp.Requests(jwks); got != 0 {
			t.Errorf("%d fetches of keys", got)
		}
	})
}

func TestDiscovery(t *testing.T) {
	inWorld(t, func(_ *access.Policy, o *fakeidp.Options) { o.OpenIDOnly = true }, func(w world) {
		w.wants("OpenID Connect only", w.idp.Token(with()), "")
	})
	inWorld(t, func(p *access.Policy, _ *fakeidp.Options) { p.Issuers[0].JWKS = issuer + "/jwks" }, func(w world) {
		w.wants("configured keys", w.idp.Token(with()), "")
		if got := w.idp.Requests("/.well-known/oauth-authorization-server/t"); got != 0 {
			t.Errorf("%d requests for metadata that is not needed", got)
		}
	})
}

// TestWeakAndForeignKeys: a set may hold keys that must not be used.
func TestWeakAndForeignKeys(t *testing.T) {
	inWorld(t, nil, func(w world) {
		n := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 128)) // 1024 bits
		w.idp.AddKey(map[string]any{"kty": "RSA", "kid": "weak", "n": n, "e": "AQAB"})
		encryption := fakeidp.NewSigner("ES256")
		jwk := encryption.JWK()
		jwk["use"] = "enc"
		w.idp.AddKey(jwk)
		restricted := fakeidp.NewSigner("RS256")
		w.idp.AddKey(restricted.JWK())
		time.Sleep(time.Minute)
		claims := map[string]any{"iss": issuer, "sub": "u1", "aud": mcpURL, "exp": time.Now().Add(time.Hour).Unix()}
		w.wants("a key for encryption", encryption.Sign(nil, claims), "unauthorized")
		w.wants("a key's own alg", restricted.Sign(nil, claims), "")
		w.wants("another alg than the key's", restricted.As("RS512").Sign(nil, claims), "unauthorized")
		w.wants("no kid", restricted.Sign(map[string]any{"kid": nil}, claims), "")
		short := fakeidp.NewSigner("RS256")
		short.KeyID = "weak"
		w.wants("a short key", short.Sign(nil, claims), "unauthorized")
	})
}
