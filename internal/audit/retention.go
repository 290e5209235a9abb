package audit

import (
	"cmp"
	"fmt"
	"os"
	"time"
)

// Reasons of deletions, the outcomes of their records.
const (
	byAge  = "age"
	bySize = "size"
)

// over reports whether the segments have more bytes than they may have, and one can be removed.
func (w *writer) over() bool {
	return w.opts.MaxTotal > 0 && w.older > 0 && w.older+w.size > w.opts.MaxTotal
}

// clear removes segments that are too old, and the oldest ones of too many bytes. A record says so
// before, with the hash of the last record that is removed. The newest segment stays.
func (w *writer) clear(now time.Time) {
	found, err := segments(w.opts.Dir)
	if err != nil {
		w.opts.Logger.Warn("old segments of the audit log cannot be found", "err", err)
		return
	}
	if len(found) == 0 {
		return
	}
	found = found[:len(found)-1]
	n, reason, left := w.excess(found, now)
	if n == 0 {
		return
	}
	if err := w.remove(found, n, reason, now); err != nil {
		w.clearAt = now.Add(retryAfter)
		w.opts.Logger.Warn("old segments of the audit log stay", "err", err)
		return
	}
	w.older = left
}

// excess counts the oldest segments that must go, of those before the newest, and says why the last
// of them must. left is the size of the others, if Options.MaxTotal is set.
func (w *writer) excess(found []segment, now time.Time) (n int, reason string, left int64) {
	for n < len(found) && found[n].over(w.opts.Keep, now) {
		n, reason = n+1, byAge
	}
	if w.opts.MaxTotal <= 0 {
		return n, reason, 0
	}
	sizes := make([]int64, len(found))
	w.older = 0
	for i := range found {
		if info, err := os.Stat(found[i].path); err == nil {
			sizes[i] = info.Size()
		}
		w.older += sizes[i]
	}
	left = w.older
	for i := range n {
		left -= sizes[i]
	}
	for ; n < len(found) && left+w.size > w.opts.MaxTotal; n++ {
		left -= sizes[n]
		reason = bySize
	}
	return n, reason, left
}

// remove records that the first n segments are removed, and removes them.
func (w *writer) remove(found []segment, n int, reason string, now time.Time) error {
	next := w.newest()
	if n < len(found) {
		next = found[n].path
	}
	first, err := firstLine(next)
	if err != nil {
		return err
	}
	record := &Record{Time: now, Kind: deletedKind, Outcome: reason, Detail: deletedDetail(found[n-1].n, first.seq-1, first.prev), Count: int64(n)}
	if err := w.write([]*Record{record}, true); err != nil {
		return err
	}
	for _, s := range found[:n] {
		if err := os.Remove(s.path); err != nil {
			return err
		}
	}
	return nil
}

// newest returns the path of the segment that is written.
func (w *writer) newest() string { return segmentPath(w.opts.Dir, w.n, w.day) }

// A deletion is a signed record of removed segments.
type deletion struct{ detail, reason string }

// deletedDetail identifies the last deleted record.
func deletedDetail(segment int, seq uint64, hash digest) string {
	return fmt.Sprintf("segment=%d seq=%d hash=%s", segment, seq, hash)
}

// explains reports whether the deletion ends with the record before first.
func (d deletion) explains(first *line) bool {
	var n int
	var seq uint64
	var hash string
	_, err := fmt.Sscanf(d.detail, "segment=%d seq=%d hash=%s", &n, &seq, &hash)
	return err == nil && seq == first.seq-1 && hash == first.prev.String()
}

// note names the deleted records. A record without a reason is of a deletion by age.
func (d deletion) note(last uint64) string {
	return fmt.Sprintf("the records up to %d were deleted by %s", last, cmp.Or(d.reason, byAge))
}
