package audit

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// writer appends to the segments of a log. One goroutine at a time uses it.
type writer struct {
	opts          Options
	dropped, lost *atomic.Int64

	log      string // the id of the log
	at       chain
	signed   uint64    // seq of the last signature
	unsigned time.Time // time of the first record since then; zero: none

	last segment // the segment with the last record, when the log was opened
	n    int     // of the newest segment
	day  string
	file file
	size int64
	torn bool // the file may have bytes behind size

	headFile *os.File
	buf      []byte
	failing  bool // the disk has failed, and that was logged

	retry time.Time // when to start a segment again, after that failed
	stuck bool      // that has failed, and it was logged

	older   int64     // bytes of the segments before the newest, if Options.MaxTotal is set
	clearAt time.Time // when to remove segments over MaxTotal again, after that failed
}

// begin continues the log of the folder, or makes one.
func (w *writer) begin() (err error) {
	defer func() {
		if err != nil {
			if w.headFile != nil {
				w.headFile.Close()
			}
			if w.file != nil {
				w.file.Close()
			}
		}
	}()
	notes, err := w.recover()
	if err != nil {
		return err
	}
	if w.headFile, err = os.OpenFile(filepath.Join(w.opts.Dir, headName), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := place.Write(filepath.Join(w.opts.Dir, publicName), []byte(w.opts.Keys.Public()+"\n")); err != nil {
		return err
	}
	now := time.Now()
	if !w.resume(now) {
		if err := w.next(now); err != nil {
			return err
		}
	}
	records := append(notes, &Record{Time: now, Kind: startKind, Detail: "process " + strconv.Itoa(os.Getpid())})
	if err := w.write(records, true); err != nil {
		return err
	}
	w.clear(now)
	return nil
}

// recover finds the end of the log. It cuts a torn end into a file of its own, and returns records
// that tell of it and of records that are missing.
func (w *writer) recover() (notes []*Record, err error) {
	now := time.Now()
	found, err := segments(w.opts.Dir)
	if err != nil {
		return nil, err
	}
	known, headErr := readHead(w.opts.Dir)
	if headErr != nil {
		notes = append(notes, &Record{Time: now, Kind: recoveredKind, Detail: "the file head was damaged"})
	}
	if len(found) > 0 {
		w.n = found[len(found)-1].n
	}
	for len(found) > 0 {
		last := found[len(found)-1]
		end, err := readTail(last.path)
		if err != nil {
			return nil, err
		}
		if len(end.torn) > 0 || end.last.seq == 0 {
			note, err := cut(last, end)
			if err != nil {
				return nil, err
			}
			note.Time = now
			notes = append(notes, note)
		}
		if end.last.seq > 0 {
			w.at = chain{end.last.seq, end.last.hash}
			if w.log, err = logOf(last.path); err != nil {
				return nil, err
			}
			w.last, w.size = last, end.end
			if note, err := w.unsignedTail(found, known); err != nil {
				return nil, err
			} else if note != nil {
				note.Time = now
				notes = append(notes, note)
			}
			break
		}
		found = found[:len(found)-1] // it had no record
	}
	if w.log != "" && known.Log != "" && known.Log != w.log {
		notes = append(notes, &Record{Time: now, Kind: recoveredKind, Outcome: lostSigned, Detail: "the file head was of another log, " + known.Log})
		return notes, nil
	}
	if known.Seq > w.at.seq {
		note := &Record{Time: now, Kind: recoveredKind, Detail: fmt.Sprintf("the records %d to %d are missing", w.at.seq+1, known.Seq)}
		if known.Signed > w.at.seq {
			note.Detail += ", of which those up to " + strconv.FormatUint(known.Signed, 10) + " were signed"
			note.Outcome = lostSigned
		}
		note.Count = int64(known.Seq - w.at.seq)
		notes = append(notes, note)
	}
	if w.log == "" {
		w.log = cmp.Or(known.Log, rand.Text())
	}
	return notes, nil
}

// resume goes on with the last segment. It reports whether that is possible: the segment is of this
// day, has room, and names the same key.
func (w *writer) resume(now time.Time) bool {
	if w.last.n != w.n || w.n == 0 || w.last.day != dayOf(now) || w.size >= w.opts.MaxBytes {
		return false
	}
	first, err := firstLine(w.last.path)
	if err != nil || rawjson.Text(rawjson.Get(first.raw, "key")) != w.opts.Keys.Public() {
		return false
	}
	f, err := w.opts.open(w.last.path)
	if err != nil {
		return false
	}
	w.file, w.day, w.unsigned = f, w.last.day, now
	return true
}

// lostSigned is the outcome of a record about missing records that were on disk once. No crash of
// the machine explains it.
const lostSigned = "signed_records_missing"

// cut moves the unreadable end of a segment into a file of its own.
func cut(s segment, t tail) (*Record, error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	side := s.path + ".torn-" + strconv.FormatInt(t.end, 10)
	sum := sha256.Sum256(t.torn)
	note := &Record{Kind: recoveredKind, Detail: fmt.Sprintf("%d bytes at the end of %s were no record and are in %s, sha256 %s",
		len(t.torn), filepath.Base(s.path), filepath.Base(side), hex.EncodeToString(sum[:]))}
	if t.last.seq == 0 {
		if info.Size() > int64(len(t.torn)) {
			return nil, fmt.Errorf("%s has no record in its last %d bytes; move it away, and tell who reads the log", s.path, len(t.torn))
		}
		return note, os.Rename(s.path, side)
	}
	if err := place.Write(side, t.torn); err != nil {
		return nil, err
	}
	return note, os.Truncate(s.path, t.end)
}

// logOf returns the id of the log that a segment belongs to.
func logOf(path string) (string, error) {
	first, err := firstLine(path)
	if err != nil {
		return "", err
	}
	if id := rawjson.Text(rawjson.Get(first.raw, "log")); first.kind == segmentKind && id != "" {
		return id, nil
	}
	return "", fmt.Errorf("%s does not begin with the record of a segment", path)
}

// run writes the queued records until the queue is closed.
func (w *writer) run(queue <-chan item, urgent <-chan struct{}) {
	sign := time.NewTimer(signAfter)
	look := time.NewTicker(lookAfter)
	defer sign.Stop()
	defer look.Stop()
	var batch []item
	for open := true; open; {
		select {
		case i, ok := <-queue:
			if open = ok; !ok {
				continue
			}
			if i.synced == nil {
				linger(urgent)
			}
			batch, open = collect(append(batch[:0], i), queue)
			w.serve(batch)
			clear(batch)
		case <-sign.C:
		case now := <-look.C:
			w.clear(now)
		}
		if due := time.Until(w.unsigned.Add(signAfter)); w.unsigned.IsZero() {
			sign.Reset(signAfter)
		} else if due > 0 {
			sign.Reset(due)
		} else {
			w.told(w.write(nil, true))
			sign.Reset(signAfter)
		}
	}
	w.told(w.write([]*Record{{Time: time.Now(), Kind: stopKind}}, true))
	w.file.Close()
	w.headFile.Close()
}

// linger waits for more records, for the time of gather or until one is urgent.
func linger(urgent <-chan struct{}) {
	wait := time.NewTimer(gather)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-urgent:
	}
}

// collect adds the records that are queued now, up to a bound. open is false if the queue was
// closed.
func collect(batch []item, queue <-chan item) (all []item, open bool) {
	for len(batch) < maxBatch {
		select {
		case i, ok := <-queue:
			if !ok {
				return batch, false
			}
			batch = append(batch, i)
		default:
			return batch, true
		}
	}
	return batch, true
}

// serve writes a batch and wakes the callers that wait for it.
func (w *writer) serve(batch []item) {
	records := make([]*Record, 0, len(batch)+1)
	missed := w.dropped.Swap(0)
	if missed > 0 {
		records = append(records, &Record{Time: time.Now(), Kind: droppedKind, Count: missed})
	}
	sync := false
	for _, i := range batch {
		records = append(records, i.record)
		sync = sync || i.synced != nil
	}
	err := w.roll(batch[0].record.Time)
	if err == nil {
		err = w.write(records, sync)
	}
	if w.told(err) {
		w.dropped.Add(missed + int64(len(batch)))
		w.lost.Add(int64(len(batch)))
		err = fmt.Errorf("%w: %w", errUnavailable, err)
	}
	for _, i := range batch {
		if i.synced != nil {
			i.synced <- err
		}
	}
	if now := time.Now(); w.over() && !now.Before(w.clearAt) {
		w.clear(now)
	}
}

// told logs the first of several failures, and the end of them. It reports whether err is one.
func (w *writer) told(err error) bool {
	failed := err != nil
	if failed != w.failing {
		if w.failing = failed; failed {
			w.opts.Logger.Error("the audit log cannot be written; records are lost until it can", "dir", w.opts.Dir, "err", err)
		} else {
			w.opts.Logger.Warn("the audit log can be written again", "dir", w.opts.Dir)
		}
	}
	return failed
}

// write appends records, with a signature if one is due. With sync they are on disk when it returns.
// After an error none of them is in the log.
func (w *writer) write(records []*Record, sync bool) error {
	if w.torn {
		if err := w.file.Truncate(w.size); err != nil {
			return err
		}
		w.torn = false
	}
	before, signed, unsigned := w.at, w.signed, w.unsigned
	w.buf = w.buf[:0]
	now := time.Now()
	due := len(records) == 0
	for _, r := range records {
		w.buf = w.at.append(w.buf, r.appendJSON)
		if w.unsigned.IsZero() {
			w.unsigned = now
		}
		due = due || r.Kind == stopKind || r.Kind == deletedKind || r.Kind == startKind
	}
	if due || w.at.seq-w.signed >= signEvery || !w.unsigned.IsZero() && now.Sub(w.unsigned) >= signAfter {
		w.buf = w.at.sign(w.buf, w.log, w.opts.Keys.sign, now)
		w.signed, w.unsigned = w.at.seq, time.Time{}
		sync = true
	}
	_, err := w.file.WriteAt(w.buf, w.size)
	if err == nil && sync {
		err = w.file.Sync()
	}
	if err != nil {
		w.at, w.signed, w.unsigned = before, signed, unsigned
		w.torn = w.file.Truncate(w.size) != nil
		return err
	}
	w.size += int64(len(w.buf))
	w.forward(w.buf)
	if cap(w.buf) > 1<<20 {
		w.buf = nil
	}
	// The records are in the log. A head that cannot be written is older, which is no fault.
	_, _ = w.headFile.WriteAt(head{w.log, w.at.seq, w.at.prev.String(), w.signed}.bytes(), 0)
	return nil
}

// forward hands lines that are in the file to the Sink.
func (w *writer) forward(lines []byte) {
	if w.opts.Sink != nil {
		w.opts.Sink.Add(lines)
	}
}

// retryAfter is the time from a segment that could not start to the next attempt.
const retryAfter = time.Minute

// roll starts a new segment if the last one is full or of another day. If that fails, the last one
// goes on: no record is lost as long as it can be written.
func (w *writer) roll(now time.Time) error {
	if w.size < w.opts.MaxBytes && dayOf(now) <= w.day || time.Now().Before(w.retry) {
		return nil
	}
	if err := w.write(nil, true); err != nil {
		return err
	}
	w.retry = time.Now().Add(retryAfter)
	if err := w.next(now); err != nil {
		if !w.stuck {
			w.opts.Logger.Error("a new file of the audit log cannot be made; records go to the one before until it can", "dir", w.opts.Dir, "file", w.n, "err", err)
		}
		w.stuck = true
		return nil
	}
	if w.stuck {
		w.opts.Logger.Warn("new files of the audit log can be made again", "dir", w.opts.Dir)
	}
	w.stuck, w.retry = false, time.Time{}
	w.clear(now)
	return nil
}

// next starts a segment. Its first record names the log and the key. If that fails, the segment
// before it goes on.
func (w *writer) next(now time.Time) error {
	n, day := w.n+1, dayOf(now)
	path := segmentPath(w.opts.Dir, n, day)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is there already", path)
	}
	f, err := w.opts.open(path)
	if err != nil {
		return err
	}
	at := w.at
	line := at.append(nil, func(dst []byte) []byte {
		dst = append(dst, `,"time":"`+now.UTC().Format(time.RFC3339Nano)+`","kind":"`+string(segmentKind)+`","log":`...)
		dst = rawjson.AppendString(dst, w.log)
		dst = strconv.AppendInt(append(dst, `,"segment":`...), int64(n), 10)
		return rawjson.AppendString(append(dst, `,"key":`...), w.opts.Keys.Public())
	})
	_, err = f.WriteAt(line, 0)
	if err = errors.Join(err, f.Sync()); err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	if w.file != nil {
		w.file.Close()
	}
	w.older += w.size
	w.n, w.day, w.file, w.size, w.at, w.torn = n, day, f, int64(len(line)), at, false
	if w.unsigned.IsZero() {
		w.unsigned = now
	}
	w.forward(line)
	syncFolder(w.opts.Dir)
	return nil
}

// syncFolder makes a new file's name last. Not every system can.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
}
