package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Keys sign a log, and hash arguments. Both come from one text.
type Keys struct {
	sign ed25519.PrivateKey
	macs *sync.Pool // of *mac
}

// mac is an HMAC with the key for arguments, and the memory that it needs.
type mac struct {
	hash hash.Hash
	sum  [sha256.Size]byte
	text []byte // at most keptText bytes
}

// keptText bounds the memory that a mac keeps for the canonical form of arguments.
const keptText = 16 << 10

// KeysFrom derives keys from a secret text.
func KeysFrom(secret string) (Keys, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "weir audit signatures", ed25519.SeedSize)
	if err != nil {
		return Keys{}, err
	}
	args, err := hkdf.Key(sha256.New, []byte(secret), nil, "weir audit arguments", sha256.Size)
	if err != nil {
		return Keys{}, err
	}
	return Keys{sign: ed25519.NewKeyFromSeed(seed), macs: &sync.Pool{New: func() any { return &mac{hash: hmac.New(sha256.New, args)} }}}, nil
}

// Public returns the key that the log is verified with, as text.
func (k Keys) Public() string {
	return base64.StdEncoding.EncodeToString(k.sign.Public().(ed25519.PublicKey))
}

// keyID returns a short name of a public key: 16 digits of its SHA-256.
func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// ParseKey reads a public key in the form of Keys.Public.
func ParseKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("a public key is 32 bytes in base64, as in the file audit.pub of the log's folder")
	}
	return raw, nil
}

// Digest returns the size and the HMAC of bytes: the holder of the key can confirm that
// they are the same, and no other reader can confirm a guess. Empty bytes have no digest.
func (k Keys) Digest(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	var room [digestRoom]byte
	return string(k.appendDigest(room[:0], data))
}

// A Digest hashes bytes that arrive in pieces. It is for one goroutine.
type Digest struct {
	mac  *mac
	pool *sync.Pool
	size int64
}

// NewDigest returns a Digest without bytes. Its owner calls String once.
func (k Keys) NewDigest() *Digest {
	m := k.macs.Get().(*mac)
	m.hash.Reset()
	return &Digest{mac: m, pool: k.macs}
}

// Write implements io.Writer. It returns no error.
func (d *Digest) Write(p []byte) (int, error) {
	d.size += int64(len(p))
	return d.mac.hash.Write(p)
}

// String ends the digest, and returns the result of Keys.Digest for the bytes.
func (d *Digest) String() string {
	defer d.pool.Put(d.mac)
	if d.size == 0 {
		return ""
	}
	return string(d.mac.appendSum(nil, d.size))
}

// digestRoom is the room that a digest needs, with the quotes of a JSON string.
const digestRoom = len(`"hmac-sha256:`) + hexLen + len(`:9223372036854775807"`)

// appendDigest appends the result of Digest for data that are not empty.
func (k Keys) appendDigest(dst, data []byte) []byte {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	return m.append(dst, data)
}

// append appends the digest of data.
func (m *mac) append(dst, data []byte) []byte {
	m.hash.Reset()
	m.hash.Write(data)
	return m.appendSum(dst, int64(len(data)))
}

// appendSum appends the digest of the written bytes, of which there are so many.
func (m *mac) appendSum(dst []byte, size int64) []byte {
	dst = hex.AppendEncode(append(dst, "hmac-sha256:"...), m.hash.Sum(m.sum[:0]))
	return strconv.AppendInt(append(dst, ':'), size, 10)
}

// hashed returns the digest of arguments in their canonical form, as a JSON string. A digest has
// nothing to escape.
func (k Keys) hashed(args []byte) []byte {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	text, ok := rawjson.AppendCanonical(m.text[:0], args)
	if !ok {
		text = rawjson.AppendText(text[:0], args)
	}
	out := append(m.append(append(make([]byte, 0, digestRoom), '"'), text), '"')
	if m.text = text; cap(text) > keptText {
		m.text = nil
	}
	return out
}

// Form is the form of arguments in the log.
type Form string

// The forms of arguments.
const (
	FormNone     Form = "none"     // none
	FormHash     Form = "hash"     // their HMAC
	FormRedacted Form = "redacted" // themselves, without known secrets
	FormFull     Form = "full"     // themselves
)

// maxArgs bounds the bytes of arguments in a record. The record of larger ones has their HMAC.
const maxArgs = 64 << 10

// Arguments returns arguments for Record.Args. redact removes secrets from a JSON value. The result
// is a copy, and JSON whatever args are. The copies of large arguments are bytes of the call of ctx; see
// memory.Take for it and its errors.
func (k Keys) Arguments(ctx context.Context, form Form, args []byte, redact func([]byte) []byte) ([]byte, error) {
	if len(args) == 0 || form == FormNone {
		return nil, nil
	}
	if len(args) > maxArgs {
		room := rawjson.CanonicalRoom(args)
		if form != FormHash {
			room += shownCopies * int64(len(args))
		}
		if err := memory.Take(ctx, room); err != nil {
			return nil, err
		}
		defer memory.Give(ctx, room)
	}
	return k.arguments(form, args, redact), nil
}

// shownCopies is how many more copies are made of arguments that are not only hashed.
const shownCopies = 3

// Unread returns Record.Args for arguments that there is no room to read: the HMAC of their bytes, not of their
// canonical form.
func (k Keys) Unread(args []byte) []byte { return rawjson.Quote(k.Digest(args)) }

func (k Keys) arguments(form Form, args []byte, redact func([]byte) []byte) []byte {
	if form == FormHash {
		return k.hashed(args)
	}
	canonical, ok := rawjson.AppendCanonical(make([]byte, 0, len(args)), args)
	if !ok {
		canonical = rawjson.AppendText(nil, args)
	}
	// The canonical form is for comparing: with invalid characters it is no JSON.
	shown := canonical
	if ok && rawjson.Valid(shown) != nil {
		var err error
		if shown, err = rawjson.AppendRewritten(make([]byte, 0, len(args)), args); err != nil {
			shown = rawjson.AppendText(nil, args)
		}
	}
	if form == FormRedacted {
		shown = redact(shown)
		canonical = shown
	}
	if len(shown) > maxArgs {
		return rawjson.Quote(k.Digest(canonical))
	}
	return shown
}
