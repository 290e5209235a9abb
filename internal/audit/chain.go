package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A digest is the hash of a record.
type digest [sha256.Size]byte

// String returns the hash in hexadecimal.
func (s digest) String() string { return hex.EncodeToString(s[:]) }

// chain is the end of the log, which the next record follows.
type chain struct {
	seq  uint64 // of the last record
	prev digest // its hash
}

const (
	prevMember = `,"prev":"`
	hashMember = `,"hash":"`
	hexLen     = 2 * sha256.Size
	// hashTail is the length of a line's end: the hash as the last member, and the brace.
	hashTail = len(hashMember) + hexLen + len(`"}`)
)

// sumOf returns the hash of a record: of the hash before it, and of its line without the hash
// (spec/audit §1). body ends before the hash's comma and has no closing brace.
func sumOf(prev digest, body []byte) digest {
	h := sha256.New()
	h.Write(prev[:])
	h.Write(body)
	h.Write([]byte{'}'})
	var out digest
	h.Sum(out[:0])
	return out
}

// append appends the record that follows as a line. members are those between seq and prev.
func (c *chain) append(dst []byte, members func(dst []byte) []byte) []byte {
	start := len(dst)
	c.seq++
	dst = strconv.AppendUint(append(dst, `{"seq":`...), c.seq, 10)
	dst = members(dst)
	dst = append(dst, prevMember...)
	dst = hex.AppendEncode(dst, c.prev[:])
	dst = append(dst, '"')
	c.prev = sumOf(c.prev, dst[start:])
	dst = append(dst, hashMember...)
	dst = hex.AppendEncode(dst, c.prev[:])
	return append(dst, '"', '}', '\n')
}

// A line is a record of a file, with the fields that the chain needs. Its slices are parts of the
// line.
type line struct {
	raw  []byte // without the line end
	seq  uint64
	kind Kind
	prev digest
	hash digest
}

var errForm = errors.New("the line is not a record")

// readLine reads a line and checks that its hash is right. A line has one form only, so every byte
// of it counts.
func readLine(raw []byte) (line, error) {
	l := line{raw: raw}
	if len(raw) < hashTail || !bytes.HasSuffix(raw, []byte(`"}`)) {
		return l, errForm
	}
	body := raw[:len(raw)-hashTail]
	tail := raw[len(body):]
	given, ok := bytes.CutPrefix(tail, []byte(hashMember))
	if !ok || !readSum(&l.hash, given[:hexLen]) {
		return l, errForm
	}
	var seq, kind, prev []byte
	if err := rawjson.Scan(raw, rawjson.Key("seq", &seq), rawjson.Key("kind", &kind), rawjson.Key("prev", &prev)); err != nil {
		return l, fmt.Errorf("%w: %w", errForm, err)
	}
	var err error
	if l.seq, err = strconv.ParseUint(string(seq), 10, 64); err != nil {
		return l, fmt.Errorf("%w: its seq is no number", errForm)
	}
	if len(prev) != hexLen+2 || !readSum(&l.prev, prev[1:1+hexLen]) || !bytes.HasSuffix(body, append([]byte(prevMember), prev[1:]...)) {
		return l, fmt.Errorf("%w: prev is not its last member before the hash", errForm)
	}
	l.kind = Kind(rawjson.Text(kind))
	if sumOf(l.prev, body) != l.hash {
		return l, errors.New("its hash does not fit its contents")
	}
	return l, nil
}

// readSum reads a hash in lower-case hexadecimal.
func readSum(dst *digest, text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	n, err := hex.Decode(dst[:], text)
	return err == nil && n == len(dst)
}

// signed is the signed text of a signature (spec/audit §3).
func signed(log string, seq uint64, at string, prev digest) []byte {
	return fmt.Appendf(nil, "weir audit 1\n%s\n%d\n%s\n%s\n", log, seq, at, prev)
}

// sign appends a record with a signature of all records so far.
func (c *chain) sign(dst []byte, log string, key ed25519.PrivateKey, now time.Time) []byte {
	at := now.UTC().Format(time.RFC3339Nano)
	sig := ed25519.Sign(key, signed(log, c.seq+1, at, c.prev))
	return c.append(dst, func(dst []byte) []byte {
		dst = append(append(dst, `,"time":"`...), at...)
		dst = append(dst, `","kind":"`+string(signatureKind)+`","key":"`...)
		dst = append(dst, keyID(key.Public().(ed25519.PublicKey))...)
		dst = append(dst, `","sig":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, sig)
		return append(dst, '"')
	})
}

// checkSignature checks the signature of a record, with the key that signed it.
func (l *line) checkSignature(log string, key ed25519.PublicKey) error {
	sig, err := base64.StdEncoding.Strict().DecodeString(rawjson.Text(rawjson.Get(l.raw, "sig")))
	if err != nil || !ed25519.Verify(key, signed(log, l.seq, rawjson.Text(rawjson.Get(l.raw, "time")), l.prev), sig) {
		return errors.New("its signature is wrong")
	}
	return nil
}
