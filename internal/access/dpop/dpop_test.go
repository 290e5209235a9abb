package dpop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

const (
	at    = "https://weir.example/mcp"
	token = identity.Secret("the.access.token")
)

// in runs a test with a Verifier whose first minute is over.
func in(t *testing.T, o dpop.Options, f func(t *testing.T, v *dpop.Verifier)) {
	synctest.Test(t, func(t *testing.T) {
		v := dpop.NewVerifier(o)
		time.Sleep(2 * time.Minute)
		f(t, v)
	})
}

func header(proofs ...string) http.Header { return http.Header{"Dpop": proofs} }

func proof(t *testing.T, k *dpop.Key, method, to string, token identity.Secret, nonce string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.Proof(method, u, token, nonce, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// refused returns the refusal that an error is.
func refused(t *testing.T, err error) *dpop.Refusal {
	t.Helper()
	var r *dpop.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("no refusal: %v", err)
	}
	return r
}

func TestProofOfAKey(t *testing.T) {
	in(t, dpop.Options{}, func(t *testing.T, v *dpop.Verifier) {
		k := dpop.NewKey()
		for _, to := range []string{at, at + "?a=1#b", "HTTPS://WEIR.example:443/mcp"} {
			want := dpop.Expect{Method: "POST", URL: at, Token: token, Thumbprint: k.Thumbprint()}
			got, err := v.Check(t.Context(), header(proof(t, k, "POST", to, token, "")), want)
			if err != nil || got != k.Thumbprint() {
				t.Errorf("%s: %q, %v", to, got, err)
			}
		}
		// A token endpoint does not know the key yet, and there is no token.
		if got, err := v.Check(t.Context(), header(proof(t, k, "POST", at, "", "")), dpop.Expect{Method: "POST", URL: at}); err != nil || got != k.Thumbprint() {
			t.Errorf("token endpoint: %q, %v", got, err)
		}
	})
}

func TestKeyAsText(t *testing.T) {
	k := dpop.NewKey()
	text, err := json.Marshal(struct{ Key *dpop.Key }{k})
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Key *dpop.Key }
	if err := json.Unmarshal(text, &read); err != nil || read.Key.Thumbprint() != k.Thumbprint() {
		t.Fatalf("%v", err)
	}
	if s := fmt.Sprintf("%v %+v %#v", k, k, k); strings.Contains(s, string(text[8:40])) || s != "[secret] [secret] [secret]" {
		t.Errorf("prints as %s", s)
	}
	for _, wrong := range []string{`{"Key":"x"}`, `{"Key":""}`, `{"Key":"%%"}`} {
		if err := json.Unmarshal([]byte(wrong), &read); err == nil {
			t.Errorf("%s was read", wrong)
		}
	}
}

// TestExamplesOfTheRFC has the proofs of RFC 9449 §4.1 and §7.1, at their time, with the key of their thumbprint.
func TestExamplesOfTheRFC(t *testing.T) {
	const (
		head       = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19."
		atServer   = head + "eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg"
		atResource = head + "eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
		thumbprint = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
		access     = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
	)
	v := dpop.NewVerifier(dpop.Options{
		Now:  func() time.Time { return time.Unix(1562262620, 0) },
		Once: func(context.Context, string, time.Duration) (bool, error) { return true, nil },
	})
	if got, err := v.Check(t.Context(), header(atServer), dpop.Expect{Method: "POST", URL: "https://server.example.com/token"}); err != nil || got != thumbprint {
		t.Errorf("at the authorization server: %q, %v", got, err)
	}
	want := dpop.Expect{Method: "GET", URL: "https://resource.example.org/protectedresource", Token: access, Thumbprint: thumbprint}
	if _, err := v.Check(t.Context(), header(atResource), want); err != nil {
		t.Errorf("at the resource: %v", err)
	}
	if want.Token = access + "x"; second(v.Check(t.Context(), header(atResource), want)) == nil {
		t.Error("the proof is good for another token")
	}
}

// TestProofsThatAreRefused has a proof for each clause of RFC 9449 §4.3.
func TestProofsThatAreRefused(t *testing.T) {
	in(t, dpop.Options{}, func(t *testing.T, v *dpop.Verifier) {
		k := dpop.NewKey()
		s := fakeidp.NewSigner("ES256")
		hs := fakeidp.NewSigner("HS256")
		public, private := s.JWK(), map[string]any{"d": "AAAA"}
		for name, value := range public {
			private[name] = value
		}
		good := func() map[string]any {
			return map[string]any{"jti": time.Now().String(), "htm": "POST", "htu": at, "iat": time.Now().Unix(), "ath": hash(token)}
		}
		head := map[string]any{"typ": "dpop+jwt", "jwk": public}
		with := func(m map[string]any, name string, value any) map[string]any {
			out := map[string]any{}
			for n, v := range m {
				out[n] = v
			}
			if out[name] = value; value == nil {
				delete(out, name)
			}
			return out
		}
		check := func(h http.Header, thumbprint string) error {
			_, err := v.Check(t.Context(), h, dpop.Expect{Method: "POST", URL: at, Token: token, Thumbprint: thumbprint})
			return err
		}
		if err := check(header(s.Sign(head, good())), ""); err != nil {
			t.Fatalf("the proof that all others are made of: %v", err)
		}
		for name, h := range map[string]http.Header{
			"none":                  {},
			"empty":                 header(""),
			"two":                   header(proof(t, k, "POST", at, token, ""), proof(t, k, "POST", at, token, "")),
			"no JWT":                header("a.b"),
			"too long":              header(s.Sign(head, with(good(), "x", strings.Repeat("x", 9000)))),
			"typ JWT":               header(s.Sign(with(head, "typ", "JWT"), good())),
			"no typ":                header(s.Sign(with(head, "typ", ""), good())),
			"alg none":              header(s.As("none").Sign(head, good())),
			"alg HS256":             header(hs.Sign(with(head, "jwk", map[string]any{"kty": "oct", "k": "AAAA"}), good())),
			"HS256 of the public":   header(s.As("HS256").Sign(head, good())),
			"no jwk":                header(s.Sign(with(head, "jwk", nil), good())),
			"jwk is a text":         header(s.Sign(with(head, "jwk", "x"), good())),
			"private jwk":           header(s.Sign(with(head, "jwk", private), good())),
			"jwk of another":        header(s.Sign(with(head, "jwk", fakeidp.NewSigner("ES256").JWK()), good())),
			"jwk of another type":   header(s.Sign(with(head, "jwk", fakeidp.NewSigner("EdDSA").JWK()), good())),
			"crit":                  header(s.Sign(with(head, "crit", []string{"x"}), good())),
			"jku":                   header(s.Sign(with(head, "jku", "https://evil.example"), good())),
			"no jti":                header(s.Sign(head, with(good(), "jti", nil))),
			"jti a number":          header(s.Sign(head, with(good(), "jti", 5))),
			"long jti":              header(s.Sign(head, with(good(), "jti", strings.Repeat("j", 257)))),
			"htm of another method": header(proof(t, k, "GET", at, token, "")),
			"htm in lower case":     header(s.Sign(head, with(good(), "htm", "post"))),
			"htu of another path":   header(proof(t, k, "POST", "https://weir.example/mcps/x/mcp", token, "")),
			"htu of another host":   header(proof(t, k, "POST", "https://evil.example/mcp", token, "")),
			"htu by http":           header(proof(t, k, "POST", "http://weir.example/mcp", token, "")),
			"htu of another port":   header(proof(t, k, "POST", "https://weir.example:8443/mcp", token, "")),
			"htu with a query":      header(s.Sign(head, with(good(), "htu", at+"?a=1"))),
			"htu with a user":       header(s.Sign(head, with(good(), "htu", "https://a@weir.example/mcp"))),
			"htu with dots":         header(s.Sign(head, with(good(), "htu", "https://weir.example/x/../mcp"))),
			"no ath":                header(proof(t, k, "POST", at, "", "")),
			"ath of another token":  header(proof(t, k, "POST", at, "another.token.x", "")),
			"no iat":                header(s.Sign(head, with(good(), "iat", nil))),
			"iat a text":            header(s.Sign(head, with(good(), "iat", "now"))),
			"iat beyond all time":   header(s.Sign(head, with(good(), "iat", 1e300))),
		} {
			if r := refused(t, check(h, "")); r.Code != "invalid_dpop_proof" || r.Nonce != "" {
				t.Errorf("%s: %+v", name, r)
			}
		}
		// The signature over other claims.
		a, b := proof(t, k, "POST", at, token, ""), proof(t, k, "GET", at, token, "")
		mixed := a[:strings.LastIndex(a, ".")] + b[strings.LastIndex(b, "."):]
		if r := refused(t, check(header(mixed), "")); r.Code != "invalid_dpop_proof" {
			t.Errorf("signature of another proof: %+v", r)
		}
		if r := refused(t, check(header(s.Sign(head, good())), k.Thumbprint())); r.Code != "invalid_dpop_proof" {
			t.Errorf("another key than the one of the token: %+v", r)
		}
	})
}

func TestProofIsUsedOnce(t *testing.T) {
	in(t, dpop.Options{}, func(t *testing.T, v *dpop.Verifier) {
		k := dpop.NewKey()
		want := dpop.Expect{Method: "POST", URL: at, Token: token}
		one := header(proof(t, k, "POST", at, token, ""))
		if _, err := v.Check(t.Context(), one, want); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			if r := refused(t, second(v.Check(t.Context(), one, want))); r.Code != "invalid_dpop_proof" && r.Code != dpop.UseNonce {
				t.Errorf("%+v", r)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

// TestClockOfAClient checks that a proof of a client with a wrong clock is answered with a nonce, that the nonce helps, and
// that it ends.
func TestClockOfAClient(t *testing.T) {
	in(t, dpop.Options{}, func(t *testing.T, v *dpop.Verifier) {
		k := dpop.NewKey()
		u, _ := url.Parse(at)
		want := dpop.Expect{Method: "POST", URL: at, Token: token}
		for _, wrong := range []time.Duration{-time.Hour, -5*time.Minute - time.Second, 12 * time.Second, 24 * time.Hour} {
			make := func(nonce string) http.Header {
				text, err := k.Proof("POST", u, token, nonce, time.Now().Add(wrong))
				if err != nil {
					t.Fatal(err)
				}
				return header(text)
			}
			r := refused(t, second(v.Check(t.Context(), make(""), want)))
			code := dpop.UseNonce
			if wrong.Abs() > 5*time.Minute {
				code = "invalid_dpop_proof"
			}
			if r.Code != code || r.Nonce == "" {
				t.Fatalf("%v: %+v", wrong, r)
			}
			again := make(r.Nonce)
			if _, err := v.Check(t.Context(), again, want); err != nil {
				t.Errorf("%v: with the nonce: %v", wrong, err)
			}
			if r := refused(t, second(v.Check(t.Context(), again, want))); r.Code != "invalid_dpop_proof" {
				t.Errorf("%v: a second time: %+v", wrong, r)
			}
			time.Sleep(5*time.Minute + time.Second)
			if got := refused(t, second(v.Check(t.Context(), make(r.Nonce), want))); got.Code != dpop.UseNonce || got.Nonce == r.Nonce {
				t.Errorf("%v: an old nonce: %+v", wrong, got)
			}
		}
		for _, forged := range []string{"", "x", strings.Repeat("A", 32)} {
			s := fakeidp.NewSigner("ES256")
			text := s.Sign(map[string]any{"typ": "dpop+jwt", "jwk": s.JWK()}, map[string]any{"jti": "1" + forged, "htm": "POST", "htu": at, "iat": time.Now().Unix(), "ath": hash(token), "nonce": forged})
			if r := refused(t, second(v.Check(t.Context(), header(text), want))); r.Code != dpop.UseNonce {
				t.Errorf("the nonce %q: %+v", forged, r)
			}
		}
	})
}

func TestNonceIsNeeded(t *testing.T) {
	in(t, dpop.Options{}, func(t *testing.T, v *dpop.Verifier) {
		k := dpop.NewKey()
		want := dpop.Expect{Method: "POST", URL: at, Token: token, Nonce: true}
		r := refused(t, second(v.Check(t.Context(), header(proof(t, k, "POST", at, token, "")), want)))
		if r.Code != dpop.UseNonce {
			t.Fatalf("%+v", r)
		}
		for range 3 { // a nonce serves for many proofs
			if _, err := v.Check(t.Context(), header(proof(t, k, "POST", at, token, r.Nonce)), want); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRestart checks that a proof of before the start is not taken a second time, wherever the clock of its client is.
func TestRestart(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	in(t, dpop.Options{Secret: secret}, func(t *testing.T, before *dpop.Verifier) {
		k := dpop.NewKey()
		u, _ := url.Parse(at)
		want := dpop.Expect{Method: "POST", URL: at, Token: token}
		var used []http.Header
		for _, ahead := range []time.Duration{-time.Minute, 0, 9 * time.Second} {
			text, err := k.Proof("POST", u, token, "", time.Now().Add(ahead))
			if err != nil {
				t.Fatal(err)
			}
			used = append(used, header(text))
		}
		nonce := refused(t, second(before.Check(t.Context(), header(proof(t, k, "POST", at, token, "old")), want))).Nonce
		used = append(used, header(proof(t, k, "POST", at, token, nonce)))
		for i, h := range used {
			if _, err := before.Check(t.Context(), h, want); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		}
		time.Sleep(5 * time.Millisecond)
		after := dpop.NewVerifier(dpop.Options{Secret: secret})
		for range 20 {
			for i, h := range used {
				if r := refused(t, second(after.Check(t.Context(), h, want))); r.Nonce == "" {
					t.Errorf("%d: %+v", i, r)
				}
			}
			time.Sleep(20 * time.Second)
		}
		if _, err := after.Check(t.Context(), header(proof(t, k, "POST", at, token, "")), want); err != nil {
			t.Errorf("a new proof: %v", err)
		}
	})
}

// TestManyProcesses checks that a proof is used once in all of them, and that a store that is away refuses none as used.
func TestManyProcesses(t *testing.T) {
	used := map[string]bool{}
	away := false
	once := func(_ context.Context, proof string, ttl time.Duration) (bool, error) {
		if ttl < 5*time.Minute {
			t.Errorf("kept for %v", ttl)
		}
		if away {
			return false, errors.New("away")
		}
		first := !used[proof]
		used[proof] = true
		return first, nil
	}
	o := dpop.Options{Once: once, Secret: []byte("the same for all")}
	a, b := dpop.NewVerifier(o), dpop.NewVerifier(o)
	k := dpop.NewKey()
	want := dpop.Expect{Method: "POST", URL: at, Token: token}
	h := header(proof(t, k, "POST", at, token, ""))
	if _, err := a.Check(t.Context(), h, want); err != nil {
		t.Fatal(err)
	}
	if r := refused(t, second(b.Check(t.Context(), h, want))); r.Code != "invalid_dpop_proof" {
		t.Errorf("%+v", r)
	}
	nonce := refused(t, second(a.Check(t.Context(), header(proof(t, k, "POST", at, token, "x")), want))).Nonce
	if _, err := b.Check(t.Context(), header(proof(t, k, "POST", at, token, nonce)), want); err != nil {
		t.Errorf("the nonce of another process: %v", err)
	}
	away = true
	if _, err := a.Check(t.Context(), header(proof(t, k, "POST", at, token, "")), want); err == nil || errors.As(err, new(*dpop.Refusal)) {
		t.Errorf("%v", err)
	}
}

// TestFlood checks that many proofs take no more room, that none is taken twice for it, and that others go on.
func TestFlood(t *testing.T) {
	in(t, dpop.Options{}, func(t *testing.T, v *dpop.Verifier) {
		s := fakeidp.NewSigner("EdDSA")
		head := map[string]any{"typ": "dpop+jwt", "jwk": s.JWK()}
		want := dpop.Expect{Method: "POST", URL: at}
		make := func(i int) http.Header {
			return header(s.Sign(head, map[string]any{"jti": fmt.Sprint(i), "htm": "POST", "htu": at, "iat": time.Now().Add(10 * time.Second).Unix()}))
		}
		first := make(-1)
		if _, err := v.Check(t.Context(), first, want); err != nil {
			t.Fatal(err)
		}
		v.Fill()
		v.Fill()
		v.Fill()
		if _, err := v.Check(t.Context(), first, want); err == nil {
			t.Error("a proof was taken twice")
		}
		k := dpop.NewKey()
		r := refused(t, second(v.Check(t.Context(), header(proof(t, k, "POST", at, "", "")), want)))
		if r.Code != dpop.UseNonce {
			t.Fatalf("%+v", r)
		}
		if _, err := v.Check(t.Context(), header(proof(t, k, "POST", at, "", r.Nonce)), want); err != nil {
			t.Errorf("with a nonce: %v", err)
		}
	})
}

func second(_ string, err error) error { return err }

// FuzzCheck checks that no text is taken that no key of the test made.
func FuzzCheck(f *testing.F) {
	k := dpop.NewKey()
	u, _ := url.Parse(at)
	text, _ := k.Proof("POST", u, token, "", time.Now())
	f.Add(text)
	f.Add("..")
	f.Add(text + ".")
	v := dpop.NewVerifier(dpop.Options{})
	f.Fuzz(func(t *testing.T, text string) {
		got, err := v.Check(t.Context(), header(text), dpop.Expect{Method: "GET", URL: at})
		if err == nil && got == k.Thumbprint() {
			t.Errorf("a proof for POST was taken for GET: %q", text)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	k := dpop.NewKey()
	u, _ := url.Parse(at)
	v := dpop.NewVerifier(dpop.Options{Once: func(context.Context, string, time.Duration) (bool, error) { return true, nil }})
	text, _ := k.Proof("POST", u, token, "", time.Now())
	h := header(text)
	for b.Loop() {
		if _, err := v.Check(b.Context(), h, dpop.Expect{Method: "POST", URL: at, Token: token, Thumbprint: k.Thumbprint()}); err != nil {
			b.Fatal(err)
		}
	}
}

func hash(token identity.Secret) string {
	k := dpop.NewKey()
	u, _ := url.Parse(at)
	text, _ := k.Proof("POST", u, token, "", time.Now())
	claims, err := jwk.DecodePart(strings.Split(text, ".")[1])
	if err != nil {
		panic(err)
	}
	ath, _ := claims["ath"].(string)
	return ath
}
