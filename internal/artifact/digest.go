package artifact

import "crypto/sha256"

// hashedApart is the size from which a Digest has a goroutine. It hashes as many bytes in 25 µs, so
// that the goroutine's cost does not count.
const hashedApart = 32 << 10

// Digest is the SHA-256 of the bytes of an artifact, which names it. Of many bytes it is computed
// while the caller does something else with them, such as describing them.
type Digest struct {
	// Rows is the number of rows of a table in the bytes, if the caller has counted them. List shows it
	// before the artifact is read as a table. It is set before PutDigested.
	Rows int
	// Lasts says that the bytes are on the heap and never change. The store then keeps them in place of
	// a copy, and with them the memory that they are a part of. It is set before PutDigested.
	Lasts bool

	sum  [sha256.Size]byte
	done chan struct{} // closed when sum is set; nil if it is
}

// DigestOf starts the Digest of data. The caller must not change data, and must call Sum before data
// becomes invalid.
func DigestOf(data []byte) *Digest {
	d := new(Digest)
	if len(data) < hashedApart {
		d.sum = sha256.Sum256(data)
		return d
	}
	d.done = make(chan struct{})
	go func() {
		defer close(d.done)
		d.sum = sha256.Sum256(data)
	}()
	return d
}

// Sum waits for the hash and returns it. It may be called more than once.
func (d *Digest) Sum() [sha256.Size]byte {
	if d.done != nil {
		<-d.done
	}
	return d.sum
}
