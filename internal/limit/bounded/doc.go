// Package bounded has a map that cannot grow without bound: it limits entries, bytes
// and age. It knows nothing of the values.
//
//	Put ─▶ entries ─▶ Get, Take
//	          │
//	          ├─ over MaxCount or MaxBytes ─▶ the oldest, or least recently used, goes
//	          └─ older than TTL ───────────▶ gone at the next call
package bounded
