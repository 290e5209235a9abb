package taskqueue

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// File is a Store in a folder: an append-only log. It is rewritten when more than half of it is
// obsolete.
//
//	tasks.log = "weirtq1\n" entry…     entry = length u32 ▪ CRC-32C u32 ▪ body
//	body      = 'S' record as JSON  |  'D' id                  (little endian)
//
// Durability: Save returns when its entry is written and, unless FileOptions.NoSync is set, the
// disk has confirmed it (fsync). So a task that was accepted, started or ended survives a crash of
// the machine. Saves that arrive during a write share the next write and its fsync. With NoSync, an
// entry survives the end of the process, even by kill -9, but not a crash of the machine. Remove
// never waits for the disk: a task that reappears after a crash is removed again.
//
// If the machine crashes during a write, the next OpenFile cuts off the torn entry and saves it in
// tasks.log.torn.
type File struct {
	dir  string
	log  *slog.Logger
	sync bool
	lock io.Closer // keeps other processes out of the folder

	mu     sync.Mutex // guards below
	next   *commit    // collects the entries of the next write; nil if none
	closed bool
	broken error // the end of the log is unknown, so nothing can be appended

	disk sync.Mutex // guards below; taken before mu
	f    *os.File
	size int64
	live map[string]span // position of each record
	used int64           // total size of live records
}

// FileOptions configures a File.
type FileOptions struct {
	// NoSync makes Save return without waiting for the disk.
	NoSync bool
	// Logger receives reports of repairs; nil discards them.
	Logger *slog.Logger
}

// span is the place of an entry in the log.
type span struct{ at, n int64 }

// commit is the content of one write.
type commit struct {
	buf     []byte
	entries []entry
	sync    bool
	over    bool // guarded by File.disk
	err     error
}

// entry is one of a commit's, its place counted from the commit's start.
type entry struct {
	id     string
	span   span
	remove bool
}

const (
	logName    = "tasks.log"
	magic      = "weirtq1\n"
	headBytes  = 8
	maxEntry   = 1 << 30
	compactMin = 4 << 20 // a smaller log is not worth rewriting
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenFile opens the Store in a folder and creates the folder if necessary. Only one process may
// have it open.
func OpenFile(dir string, o FileOptions) (*File, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("task store: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("task store %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, logName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("task store: %w", err), lock.Close())
	}
	s := &File{dir: dir, log: o.Logger, sync: !o.NoSync, lock: lock, f: f, live: map[string]span{}}
	if err := s.scan(); err != nil {
		return nil, errors.Join(fmt.Errorf("task store %s: %w", f.Name(), err), f.Close(), lock.Close())
	}
	return s, nil
}

// scan finds the records of the log and cuts off a torn end.
func (s *File) scan() error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < int64(len(magic)) {
		// new, or the process ended while creating it
		if err := s.f.Truncate(0); err != nil {
			return err
		}
		if _, err := s.f.WriteAt([]byte(magic), 0); err != nil {
			return err
		}
		s.size = int64(len(magic))
		return errors.Join(s.f.Sync(), syncDir(s.dir))
	}
	r := bufio.NewReaderSize(s.f, 1<<20)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	if string(head) != magic {
		return fmt.Errorf("this is no task log: it begins with %q", head)
	}
	s.size = int64(len(magic))
	for {
		body, err := readEntry(r, info.Size()-s.size)
		if err == io.EOF {
			return nil
		}
		var e entry
		if err == nil {
			e, err = parseEntry(body)
		}
		if err != nil {
			return s.cut(info.Size(), err)
		}
		e.span = span{s.size, headBytes + int64(len(body))}
		s.apply(e)
		s.size += e.span.n
	}
}

var errTorn = errors.New("the last entry is torn")

// readEntry reads the body of the next entry; io.EOF where the log ends.
func readEntry(r io.Reader, left int64) ([]byte, error) {
	if left == 0 {
		return nil, io.EOF
	}
	var head [headBytes]byte
	if left < headBytes {
		return nil, errTorn
	}
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n == 0 || n > maxEntry || n > left-headBytes {
		return nil, errTorn
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return body, nil
}

func parseEntry(body []byte) (entry, error) {
	switch body[0] {
	case 'D':
		return entry{id: string(body[1:]), remove: true}, nil
	case 'S':
		var r struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(body[1:], &r); err != nil || r.ID == "" {
			return entry{}, fmt.Errorf("an entry is no record: %w", err)
		}
		return entry{id: r.ID}, nil
	}
	return entry{}, fmt.Errorf("an entry of unknown kind %q", body[:1])
}

// cut removes the bytes after the last good entry and saves them separately.
func (s *File) cut(size int64, cause error) error {
	rest := make([]byte, min(size-s.size, 64<<20))
	n, err := s.f.ReadAt(rest, s.size)
	if err != nil && err != io.EOF {
		return err
	}
	aside := filepath.Join(s.dir, logName+".torn")
	if err := os.WriteFile(aside, rest[:n], 0o600); err != nil {
		return err
	}
	s.log.Warn("the end of the task log could not be read and was put aside", "log", s.f.Name(), "kept", s.size, "bytes", size-s.size, "aside", aside, "err", cause)
	if err := s.f.Truncate(s.size); err != nil {
		return err
	}
	return s.f.Sync()
}

// apply applies an entry to the index. Its span is a position in the log.
func (s *File) apply(e entry) {
	if old, ok := s.live[e.id]; ok {
		s.used -= old.n
		delete(s.live, e.id)
	}
	if !e.remove {
		s.live[e.id] = e.span
		s.used += e.span.n
	}
}

// Load implements Store.
func (s *File) Load() ([]Record, error) {
	s.disk.Lock()
	defer s.disk.Unlock()
	all := make([]Record, 0, len(s.live))
	for id, at := range s.live {
		body := make([]byte, at.n-headBytes)
		if _, err := s.f.ReadAt(body, at.at+headBytes); err != nil {
			return nil, err
		}
		var r Record
		if err := json.Unmarshal(body[1:], &r); err != nil {
			return nil, fmt.Errorf("task %s: %w", id, err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// Save implements Store.
func (s *File) Save(r Record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("task %s: %w", r.ID, err)
	}
	if len(body) >= maxEntry {
		return fmt.Errorf("task %s: a record of %d bytes is over the bound", r.ID, len(body))
	}
	return s.append(true, func(c *commit) { c.add('S', r.ID, body) })
}

// Remove implements Store.
func (s *File) Remove(ids ...string) error {
	return s.append(false, func(c *commit) {
		for _, id := range ids {
			c.add('D', id, []byte(id))
		}
	})
}

func (c *commit) add(kind byte, id string, body []byte) {
	at := len(c.buf)
	c.buf = append(c.buf, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	c.buf = append(c.buf, body...)
	e := c.buf[at:]
	binary.LittleEndian.PutUint32(e, uint32(len(e)-headBytes))
	binary.LittleEndian.PutUint32(e[4:], crc32.Checksum(e[headBytes:], castagnoli))
	c.entries = append(c.entries, entry{id: id, span: span{int64(at), int64(len(e))}, remove: kind == 'D'})
}

// append adds to the next commit and waits until it is written. The first caller that gets the disk
// writes for all.
func (s *File) append(sync bool, add func(*commit)) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errStoreClosed
	}
	if s.next == nil {
		s.next = &commit{}
	}
	c := s.next
	add(c)
	c.sync = c.sync || sync
	s.mu.Unlock()

	s.disk.Lock()
	defer s.disk.Unlock()
	if c.over {
		return c.err
	}
	s.mu.Lock()
	s.next = nil
	err := s.broken
	s.mu.Unlock()
	if err == nil {
		err = s.write(c)
	}
	c.over, c.err, c.buf, c.entries = true, err, nil, nil
	return err
}

// write writes a commit. It is called under disk.
func (s *File) write(c *commit) error {
	_, err := s.f.WriteAt(c.buf, s.size)
	if err == nil && c.sync && s.sync {
		err = s.f.Sync()
	}
	if err != nil {
		// It is unknown which part is on the disk. No caller was told that it is saved, so it must
		// not reappear.
		if cutErr := s.f.Truncate(s.size); cutErr != nil || c.sync && s.sync && s.f.Sync() != nil {
			s.mu.Lock()
			s.broken = fmt.Errorf("the task log %s failed before, and its end is not known: %w", s.f.Name(), err)
			s.mu.Unlock()
		}
		return fmt.Errorf("task log: %w", err)
	}
	for _, e := range c.entries {
		e.span.at += s.size
		s.apply(e)
	}
	s.size += int64(len(c.buf))
	if s.size > compactMin && s.size > 2*s.used {
		if err := s.compact(); err != nil {
			s.log.Error("the task log could not be rewritten and goes on growing", "log", s.f.Name(), "err", err)
		}
	}
	return nil
}

// compact rewrites the log with the live records. The caller holds disk.
func (s *File) compact() error {
	path := filepath.Join(s.dir, logName)
	tmp, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	fail := func(err error) error { return errors.Join(err, tmp.Close(), os.Remove(tmp.Name())) }
	ids := make([]string, 0, len(s.live))
	for id := range s.live {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(s.live[a].at, s.live[b].at) })
	w := bufio.NewWriterSize(tmp, 1<<20)
	if _, err := w.WriteString(magic); err != nil {
		return fail(err)
	}
	size := int64(len(magic))
	live := make(map[string]span, len(ids))
	for _, id := range ids {
		at := s.live[id]
		if _, err := io.Copy(w, io.NewSectionReader(s.f, at.at, at.n)); err != nil {
			return fail(err)
		}
		live[id] = span{size, at.n}
		size += at.n
	}
	if err := errors.Join(w.Flush(), tmp.Sync()); err != nil {
		return fail(err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fail(err)
	}
	old := s.f
	s.f, s.size, s.live, s.used = tmp, size, live, size-int64(len(magic))
	return errors.Join(old.Close(), syncDir(s.dir))
}

// Close implements Store. All saved records are on the disk when it returns.
func (s *File) Close() error {
	s.disk.Lock()
	defer s.disk.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if c := s.next; c != nil {
		c.over, c.err = true, errStoreClosed
		s.next = nil
	}
	s.mu.Unlock()
	return errors.Join(s.f.Sync(), s.f.Close(), s.lock.Close())
}

// syncDir makes the disk confirm the names in a folder.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
