package authserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/store"
)

// How long keys are used. A new key is published before it signs, and stays until its last token has expired.
const (
	keyTime     = 30 * 24 * time.Hour
	publishTime = 10 * time.Minute
	keyLookTime = 5 * time.Second // between reads that unknown keys cause
	maxSignKeys = 4
)

// keyRing is the keys that sign tokens. All nodes share one document with them.
type keyRing struct {
	*shelf

	mu     sync.Mutex // guards below
	keys   []signKey  // the oldest first
	looked time.Time
}

// signKey is one key of ES256.
type signKey struct {
	ID   string
	DER  []byte
	Made int64

	private *ecdsa.PrivateKey
}

var errNoKey = errors.New("no key of this gateway has signed the token")

// parse fills in the private keys.
func parse(all []signKey) []signKey {
	for i := range all {
		if key, err := x509.ParsePKCS8PrivateKey(all[i].DER); err == nil {
			all[i].private, _ = key.(*ecdsa.PrivateKey)
		}
	}
	return slices.DeleteFunc(all, func(one signKey) bool { return one.private == nil })
}

// due reports whether a new key has to be made.
func due(all []signKey, now time.Time) bool {
	return len(all) == 0 || now.Sub(time.Unix(all[len(all)-1].Made, 0)) >= keyTime
}

// current returns the keys, with a new one if it is time.
func (k *keyRing) current(ctx context.Context) ([]signKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if !due(k.keys, now) && now.Sub(k.looked) < publishTime/2 {
		return k.keys, nil
	}
	var all []signKey
	_, err := store.Change(ctx, k.docs, keysKey, func(d store.Doc) ([]byte, time.Duration, error) {
		all = nil
		k.decode(d, &all)
		if all = parse(all); !due(all, now) {
			return nil, 0, store.ErrKeep
		}
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, 0, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, signKey{ID: rand.Text()[:12], DER: der, Made: now.Unix(), private: private})
		if len(all) > maxSignKeys {
			all = all[len(all)-maxSignKeys:]
		}
		all = slices.DeleteFunc(all, func(one signKey) bool { return now.Sub(time.Unix(one.Made, 0)) > 2*keyTime })
		value, err := k.encode(keysKey, all)
		return value, 0, err
	})
	if err != nil && !errors.Is(err, store.ErrKeep) {
		if len(k.keys) > 0 {
			return k.keys, nil // of before: tokens go on while the store is away
		}
		return nil, err
	}
	k.keys, k.looked = all, now
	return all, nil
}

// signing returns the newest key that others know already.
func (k *keyRing) signing(ctx context.Context) (signKey, error) {
	all, err := k.current(ctx)
	if err != nil {
		return signKey{}, err
	}
	for _, one := range slices.Backward(all) {
		if k.now().Sub(time.Unix(one.Made, 0)) >= publishTime {
			return one, nil
		}
	}
	return all[0], nil // the first key of all
}

// public returns the key with an id.
func (k *keyRing) public(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	find := func() *ecdsa.PublicKey {
		for _, one := range k.keys {
			if one.ID == id {
				return &one.private.PublicKey
			}
		}
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := find(); key != nil {
		return key, nil
	}
	if now := k.now(); now.Sub(k.looked) >= keyLookTime || k.keys == nil {
		var all []signKey
		if _, ok, err := k.load(ctx, keysKey, &all); err != nil {
			return nil, err
		} else if ok {
			k.keys = parse(all)
		}
		k.looked = now
	}
	if key := find(); key != nil {
		return key, nil
	}
	return nil, errNoKey
}

// sign returns a JWT of a type.
func (k *keyRing) sign(ctx context.Context, kind string, claims jwt.MapClaims) (string, error) {
	key, err := k.signing(ctx)
	if err != nil {
		return "", err
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"], token.Header["typ"] = key.ID, kind
	return token.SignedString(key.private)
}

// verify checks the signature of a JWT of a type and returns its claims. It checks no times and no audience.
func (k *keyRing) verify(ctx context.Context, text, kind string) (jwt.MapClaims, error) {
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	claims := jwt.MapClaims{}
	_, err := parser.ParseWithClaims(text, claims, func(t *jwt.Token) (any, error) {
		if t.Header["typ"] != kind {
			return nil, errors.New("it is a token of another kind")
		}
		id, _ := t.Header["kid"].(string)
		return k.public(ctx, id)
	})
	return claims, err
}
