// Package inflight counts work in progress and waits for its end. It knows nothing of the work.
//
//	Enter ─▶ work ─▶ Leave          Close ─▶ Enter returns false
//	         └── counted ──┘        Drain ─▶ returns once the count is 0
package inflight
