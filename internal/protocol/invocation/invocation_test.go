package invocation

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var secret = []byte(strings.Repeat("s", minSecret))

func pair(t *testing.T, signKey, verifyKey any) (*Signer, *Verifier) {
	t.Helper()
	s, err := NewSigner("weir", signKey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier("files", verifyKey)
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

func TestSignVerify(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][2]any{"HS256": {secret, secret}, "EdDSA": {private, public}} {
		t.Run(name, func(t *testing.T) {
			s, v := pair(t, keys[0], keys[1])
			token, err := s.Sign("ann", "files", "read")
			if err != nil {
				t.Fatal(err)
			}
			got, err := v.Verify(token)
			if want := (Claims{"weir", "files", "ann", "read"}); err != nil || got != want {
				t.Errorf("got %+v, %v", got, err)
			}
			if _, err := v.Verify(token); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "used before") {
				t.Errorf("twice: %v", err)
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	good := func() claims {
		return claims{RegisteredClaims: jwt.RegisteredClaims{
			Subject: "ann", Audience: jwt.ClaimStrings{"files"}, ID: "1",
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(time.Minute)),
		}}
	}
	sign := func(method jwt.SigningMethod, key any, change func(*claims)) string {
		c := good()
		change(&c)
		token, err := jwt.NewWithClaims(method, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	same := func(*claims) {}
	for name, c := range map[string]struct{ token, want string }{
		"missing":         {"", "missing"},
		"garbage":         {"a.b.c", "malformed"},
		"huge":            {strings.Repeat("x", maxToken+1), "longer"},
		"another secret":  {sign(jwt.SigningMethodHS256, []byte(strings.Repeat("t", minSecret)), same), "signature"},
		"another method":  {sign(jwt.SigningMethodHS512, secret, same), "signing method"},
		"no signature":    {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, same), "signing method"},
		"EdDSA for HS256": {sign(jwt.SigningMethodEdDSA, private, same), "signing method"},
		"public as HS256": {sign(jwt.SigningMethodHS256, []byte(public), same), "signature"},
		"another agent":   {sign(jwt.SigningMethodHS256, secret, func(c *claims) { c.Audience = jwt.ClaimStrings{"web"} }), `not for the agent "files"`},
		"expired": {sign(jwt.SigningMethodHS256, secret, func(c *claims) {
			c.IssuedAt, c.ExpiresAt = jwt.NewNumericDate(now.Add(-time.Minute)), jwt.NewNumericDate(now.Add(-10*time.Second))
		}), "expired"},
		"too long": {sign(jwt.SigningMethodHS256, secret, func(c *claims) { c.ExpiresAt = jwt.NewNumericDate(now.Add(61 * time.Second)) }), "longer than 1m0s"},
		"no exp":   {sign(jwt.SigningMethodHS256, secret, func(c *claims) { c.ExpiresAt = nil }), "exp"},
		"no iat":   {sign(jwt.SigningMethodHS256, secret, func(c *claims) { c.IssuedAt = nil }), "no iat"},
		"no jti":   {sign(jwt.SigningMethodHS256, secret, func(c *claims) { c.ID = "" }), "no jti"},
		"no sub":   {sign(jwt.SigningMethodHS256, secret, func(c *claims) { c.Subject = "" }), "no sub"},
	} {
		t.Run(name, func(t *testing.T) {
			_, v := pair(t, secret, secret)
			if _, err := v.Verify(c.token); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	_, v := pair(t, secret, secret)
	if _, err := v.Verify(sign(jwt.SigningMethodHS256, secret, same)); err != nil {
		t.Errorf("the unchanged one: %v", err)
	}
}

// Tokens are remembered for as long as they could be used again, and no longer.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := pair(t, secret, secret)
		for range 1000 {
			token, err := s.Sign("ann", "files", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Verify(token); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := len(v.seen); n > 80 {
			t.Errorf("%d tokens are remembered", n)
		}
	})
}

func TestKeys(t *testing.T) {
	for name, key := range map[string]any{"short": []byte("short"), "none": nil, "half": ed25519.PrivateKey("x"), "half public": ed25519.PublicKey("x")} {
		if _, err := NewSigner("weir", key); err == nil {
			t.Errorf("%s: signs", name)
		}
		if _, err := NewVerifier("files", key); err == nil {
			t.Errorf("%s: verifies", name)
		}
	}
}
