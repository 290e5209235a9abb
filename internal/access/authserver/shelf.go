package authserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
)

// Prefixes of the keys of documents.
const (
	keysKey       = "as.keys"
	pendingPrefix = store.AuthKeys + "pending."
	codePrefix    = store.AuthKeys + "code."
	grantPrefix   = store.AuthKeys + "grant."
	endedPrefix   = store.AuthKeys + "ended."
	personPrefix  = store.AuthKeys + "person."
	sessionPrefix = store.AuthKeys + "session."
	consentPrefix = store.AuthKeys + "consent."
	clientPrefix  = store.AuthKeys + "client."
	oncePrefix    = store.AuthKeys + "once."
	outPrefix     = store.AuthKeys + "out."
)

// purpose is the purpose of the seal of documents: their keys are the contexts, so that none stands for another.
const purpose = "authserver"

// shelf keeps documents and what is made with the key of the store.
type shelf struct {
	docs store.Docs
	key  *seal.Key
	now  func() time.Time
	log  *slog.Logger
}

// encode returns the sealed form of a document.
func (s *shelf) encode(key string, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return []byte(s.key.Seal(purpose, raw, []byte(key))), nil
}

// decode reads a document. A document that was sealed with a lost key counts as none.
func (s *shelf) decode(d store.Doc, v any) bool {
	if d.Rev == 0 {
		return false
	}
	raw, ok := s.key.OpenKept(purpose, string(d.Value), []byte(d.Key))
	return ok && json.Unmarshal(raw, v) == nil
}

// load reads the document of a key. It reports false if there is none.
func (s *shelf) load(ctx context.Context, key string, v any) (rev uint64, ok bool, err error) {
	d, err := s.docs.Get(ctx, key)
	if err != nil {
		return 0, false, err
	}
	return d.Rev, s.decode(d, v), nil
}

// keep writes a document over a revision.
func (s *shelf) keep(ctx context.Context, key string, v any, rev uint64, life time.Duration) error {
	value, err := s.encode(key, v)
	if err != nil {
		return err
	}
	_, err = s.docs.Set(ctx, key, value, rev, life)
	return err
}

// once reports whether a text is new, and remembers it for so long.
func (s *shelf) once(ctx context.Context, text string, life time.Duration) (bool, error) {
	_, err := s.docs.Set(ctx, oncePrefix+store.Hash(text), []byte("1"), 0, life)
	if errors.Is(err, store.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// seconds writes a time for headers.
func seconds(d time.Duration) string { return strconv.Itoa(max(1, int((d+time.Second-1)/time.Second))) }

// secretOf returns the secret of a registered client: it needs no place, and ends with the key of the store.
func (s *shelf) secretOf(id string) string { return s.macs("client secret", id)[0] }

// macs returns the codes of a text, with the key of the store first and then with its former keys.
func (s *shelf) macs(purpose, text string) (all []string) {
	for _, key := range s.key.Secrets("authserver/" + purpose) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		all = append(all, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
	}
	return all
}

// isMac reports whether a code is one of a text. The time that it takes says nothing of the code.
func (s *shelf) isMac(purpose, text, code string) bool {
	ok := 0
	for _, want := range s.macs(purpose, text) {
		ok |= subtle.ConstantTimeCompare([]byte(want), []byte(code))
	}
	return ok == 1
}

// unix returns the time in seconds.
func (s *shelf) unix() int64 { return s.now().Unix() }
