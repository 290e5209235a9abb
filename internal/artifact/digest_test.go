package artifact

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"
)

func TestDigest(t *testing.T) {
	for _, size := range []int{0, 1, hashedApart - 1, hashedApart, 3 * hashedApart} {
		data := bytes.Repeat([]byte("a"), size)
		d := DigestOf(data)
		for range 2 {
			if got := d.Sum(); got != sha256.Sum256(data) {
				t.Errorf("%d bytes: %x", size, got)
			}
		}
	}
}

// The store keeps bytes that last, and a copy of all others, so that their owner may change them.
func TestLastingBytesAreKept(t *testing.T) {
	s := NewMemory(Options{})
	defer s.Close()
	for _, lasts := range []bool{true, false} {
		data := []byte(strings.Repeat("a line\n", 10_000) + strconv.FormatBool(lasts))
		digest := DigestOf(data)
		digest.Lasts = lasts
		a, err := s.At("").PutDigested(t.Context(), "ann", "text/plain", "", data, digest)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := s.Open(t.Context(), "ann", a.Handle)
		if err != nil {
			t.Fatal(err)
		}
		got, err := lease.Bytes(t.Context())
		if err != nil || !bytes.Equal(got, data) || (&got[0] == &data[0]) != lasts {
			t.Errorf("bytes that last (%t) are kept themselves: %t", lasts, &got[0] == &data[0])
		}
		lease.Close()
	}
}
