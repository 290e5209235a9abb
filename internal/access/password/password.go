package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Costs of a password hash (Argon2id): the second choice of RFC 9106 §4, for servers that check few at a time.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 1
	argonSalt    = 16
	argonKey     = 32
)

var errHash = errors.New("not a password hash such as weir account add writes: $argon2id$v=19$m=65536,t=3,p=1$SALT$HASH")

// hash is a password hash in its parts.
type hash struct {
	memory, time uint32
	threads      uint8
	salt, key    []byte
}

// Hash returns the hash of a password in the PHC form.
func Hash(password string) string {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads, b64.EncodeToString(salt), b64.EncodeToString(key))
}

// Check returns an error for a text that is no password hash, or one that costs more than a sign-in may.
func Check(text string) error {
	_, err := read(text)
	return err
}

func read(text string) (h hash, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return h, errHash
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads); err != nil || n != 3 {
		return h, errHash
	}
	var second error
	h.salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	h.key, second = base64.RawStdEncoding.DecodeString(parts[5])
	switch {
	case err != nil || second != nil || len(h.salt) < 8 || len(h.salt) > 64 || len(h.key) < 16 || len(h.key) > 64:
		return h, errHash
	case h.memory < 8<<10 || h.memory > 256<<10 || h.time < 1 || h.time > 10 || h.threads < 1 || h.threads > 8:
		return h, errors.New("a hash that costs too much or too little: m must be 8192 to 262144, t 1 to 10 and p 1 to 8")
	}
	return h, nil
}

// Fits reports whether a password has a hash. A text that is no hash fits none.
func Fits(text, password string) bool {
	h, err := read(text)
	if err != nil {
		return false
	}
	key := argon2.IDKey([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(len(h.key)))
	return subtle.ConstantTimeCompare(key, h.key) == 1
}

// Memory returns the bytes that Fits takes for a hash.
func Memory(text string) (int64, error) {
	h, err := read(text)
	return int64(h.memory) << 10, err
}
