package dpop

import (
	"encoding/binary"
	"time"
)

// Fill has one generation of proofs used, of clients whose clocks are ahead as far as allowed.
func (v *Verifier) Fill() {
	now := v.o.Now()
	for i := range maxSeen {
		var proof [16]byte
		binary.BigEndian.PutUint64(proof[:], uint64(now.UnixNano()))
		binary.BigEndian.PutUint64(proof[8:], uint64(i))
		v.seen.add(proof, moment{now.Add(ahead), true}, now)
	}
	time.Sleep(time.Nanosecond)
}
