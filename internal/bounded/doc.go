// Package bounded has a map that cannot grow without bound: it limits entries, bytes, their age, and
// the entries of one owner. It knows nothing of the values.
//
//	Put ─▶ entries ─▶ Get, Take
//	          │
//	          ├─ over MaxCount, MaxBytes or MaxPerOwner ─▶ the oldest, or least recently used, goes
//	          └─ older than TTL ─────────────────────────▶ gone at the next call
package bounded
