package artifact

import (
	"bytes"
	"crypto/sha256"
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
