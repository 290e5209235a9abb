package artifact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Shelf is where artifacts with a handle outlast the process: their bytes in files of a folder, and a
// document for each in a store. The document is written last and names the file, so a file without a
// document is of a call that was not answered, and a document without a file is of an artifact that
// was removed.
type Shelf struct {
	// Docs has the documents.
	Docs store.Docs
	// Dir is the folder. It exists, and no other Local uses it.
	Dir string
	// Late leaves it to the system when bytes reach the disk.
	Late bool
}

const (
	// shelfPrefix is the prefix of the keys of the documents, one for each artifact.
	shelfPrefix = store.ResultKeys
	// shelfTime bounds the write of one document.
	shelfTime = 5 * time.Second
	// restoreTime bounds how long it takes to read the artifacts of an earlier process.
	restoreTime = time.Minute
)

// record is the document of an artifact.
type record struct {
	V         int       `json:"v"`
	Principal string    `json:"principal"`
	Place     string    `json:"place,omitempty"`
	Handle    string    `json:"handle"`
	MediaType string    `json:"media_type"`
	Label     string    `json:"label"`
	Mark      string    `json:"mark,omitempty"`
	Size      int64     `json:"size"`
	Hash      string    `json:"hash"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires"`
	Table     bool      `json:"table,omitempty"`  // its rows were written as a table
	RowID     bool      `json:"row_id,omitempty"` // which has numbers of its own
}

const recordVersion = 1

// copyOnDisk is the file of an artifact, and its document.
type copyOnDisk struct {
	path string

	mu      sync.Mutex // guards below; taken before ledger.mu
	doc     *store.Sole
	removed bool
	failed  error // why there is no document
}

// write puts the bytes of an artifact into a file that has no document yet.
func (h *Shelf) write(data io.Reader, size int64) (*copyOnDisk, error) {
	var name [16]byte
	rand.Read(name[:])
	id := hex.EncodeToString(name[:])
	c := &copyOnDisk{path: filepath.Join(h.Dir, id), doc: store.NewSole(h.Docs, shelfPrefix+id, 0)}
	f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if _, err = io.Copy(f, data); err == nil && !h.Late {
			err = f.Sync()
		}
		err = closeWritten(f, err)
	}
	if err != nil {
		return nil, fmt.Errorf("keeping a result of %d bytes: %w", size, withoutPath(err))
	}
	if !h.Late {
		syncFolder(h.Dir)
	}
	return c, nil
}

// syncFolder writes the names in a folder to the disk, where the system can.
func syncFolder(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

// shelve keeps data in a file that outlasts the process, and in memory as well if there is room, as
// newContent does.
func (c *content) shelve(data []byte, lasts bool) error {
	b := c.budget
	if err := b.reserveShelf(c.size); err != nil {
		return err
	}
	made, err := b.opts.Shelf.write(bytes.NewReader(data), c.size)
	if err != nil {
		b.free(0, c.size)
		return err
	}
	c.copy = made
	if b.reserve(c.size) {
		c.data, c.copied = ownBytes(data, lasts), c.size
	} else {
		c.file = made.path
	}
	return nil
}

// outlast copies a table, which is there already, into a file that outlasts the process. After an
// error the content is dropped.
func (c *content) outlast() (err error) {
	b := c.budget
	if b.opts.Shelf == nil {
		return nil
	}
	defer func() {
		if err != nil {
			c.unlink()
			c.drop()
		}
	}()
	if err := c.attach(); err != nil {
		return err
	}
	defer c.detach()
	if err := b.reserveShelf(c.size); err != nil {
		return err
	}
	made, err := b.opts.Shelf.write(c.reader(), c.size)
	if err != nil {
		b.free(0, c.size)
		return err
	}
	c.copy, c.copied = made, c.size
	return nil
}

// confirm writes the document of an item that has been stored or renewed. When it returns nil, the
// artifact is there after a restart. An artifact that cannot be kept is not there at all.
func (s *Local) confirm(it *item) error {
	c := it.content.copy
	if c == nil {
		return nil
	}
	withdraw, err := c.confirm(s.ledger, it)
	if withdraw {
		s.discard(it)
	}
	return err
}

// discard removes an item as if it had never been there.
func (s *Local) discard(it *item) {
	now, err := s.ledger.lock()
	defer s.ledger.unlock()
	if err == nil {
		s.ledger.remove(it, nil, now)
	}
}

// confirm reports whether the item has never had a document and gets none.
func (c *copyOnDisk) confirm(l *ledger, it *item) (withdraw bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil || c.removed { // an artifact that made room for newer ones is no error
		return false, c.failed
	}
	r, left, err := l.record(it)
	if err != nil || left <= 0 {
		return false, err
	}
	value, err := json.Marshal(r)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), shelfTime)
		defer cancel()
		err = c.doc.Write(ctx, value, left)
	}
	if err == nil {
		return false, nil
	}
	err = &Error{Kind: ErrFull, Detail: fmt.Sprintf("the store of this gateway cannot keep a result of %d bytes: %v; %s", r.Size, err, store.Remedy(err))}
	if c.doc.There() {
		return false, err
	}
	c.failed = err
	return true, err
}

// record returns the document of an item, and how long it is for. It fails if the ledger is closed;
// an item that was removed has no time left.
func (l *ledger) record(it *item) (r record, left time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return record{}, 0, ErrClosed
	}
	if it.space.items[it.Handle] != it {
		return record{}, 0, nil
	}
	rows := it.content.written()
	return record{
		Table: it.content.isTable || rows != nil, RowID: it.content.rowID || rows != nil && rows.Has(table.RowID),
		V: recordVersion, Principal: it.space.principal, Place: it.home, Handle: it.Handle, MediaType: it.MediaType, Label: it.Label, Mark: it.Mark,
		Size: it.SizeBytes, Hash: it.ContentHash, Created: it.Created, Expires: it.Expires,
	}, it.Expires.Sub(l.opts.Now()), nil
}

// remove removes the file, and the document unless it has ended by itself.
func (c *copyOnDisk) remove(expired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return
	}
	c.removed = true
	removeFile(c.path)
	if !expired {
		ctx, cancel := context.WithTimeout(context.Background(), shelfTime)
		defer cancel()
		_ = c.doc.Remove(ctx) // one that stays names no file, and ends by itself
	}
}

// restore reads the artifacts that an earlier process has kept, newest first and as far as the bounds
// allow, and removes all other files of the folder.
func (s *Local) restore() error {
	ctx, cancel := context.WithTimeout(context.Background(), restoreTime)
	defer cancel()
	h := s.opts.Shelf
	type found struct {
		record
		id  string
		rev uint64
	}
	var all []found
	for doc, err := range h.Docs.List(ctx, shelfPrefix) {
		if err != nil {
			return fmt.Errorf("restore results: %w", err)
		}
		f := found{id: strings.TrimPrefix(doc.Key, shelfPrefix), rev: doc.Rev}
		if json.Unmarshal(doc.Value, &f.record) != nil || f.V != recordVersion {
			continue // of a later version: it ends by itself, and its file goes now
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.id, b.id)) })
	known := map[string]bool{}
	for _, f := range all {
		c := &copyOnDisk{path: filepath.Join(h.Dir, f.id), doc: store.NewSole(h.Docs, shelfPrefix+f.id, f.rev)}
		if s.takeUp(f.record, c) {
			known[f.id] = true
		} else if err := c.doc.Remove(ctx); err != nil {
			return fmt.Errorf("restore results: %w", err)
		}
	}
	files, err := os.ReadDir(h.Dir)
	if err != nil {
		return fmt.Errorf("restore results: %w", err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			if err := os.Remove(filepath.Join(h.Dir, f.Name())); err != nil {
				return fmt.Errorf("restore results: %w", err)
			}
		}
	}
	return nil
}

// takeUp adds an artifact of an earlier process, as the least recently used one of its principal. It
// returns false if its file is not whole, or if a bound has no room for it.
func (s *Local) takeUp(r record, c *copyOnDisk) bool {
	sum, err := hex.DecodeString(r.Hash)
	if err != nil || len(sum) != sha256.Size {
		return false
	}
	if info, err := os.Lstat(c.path); err != nil || !info.Mode().IsRegular() || info.Size() != r.Size {
		return false
	}
	l := s.ledger
	now, _ := l.lock() // it is not closed yet
	defer l.unlock()
	sp := l.space(r.Principal)
	defer l.release(sp)
	if !r.Expires.After(now) || sp.items[r.Handle] != nil || sp.recent.Len() >= s.opts.MaxCount || sp.bytes+r.Size > s.opts.MaxBytes || s.budget.reserveShelf(r.Size) != nil {
		return false
	}
	it := &item{
		Artifact: Artifact{Handle: r.Handle, MediaType: r.MediaType, SizeBytes: r.Size, Label: r.Label, Mark: r.Mark, ContentHash: r.Hash, Created: r.Created, Expires: r.Expires},
		content:  &content{budget: s.budget, size: r.Size, file: c.path, copy: c, unread: sum, isTable: r.Table, rowID: r.RowID, holders: 1}, home: r.Place,
	}
	it.recent = sp.recent.PushBack(it)
	l.add(sp, it)
	return true
}

// errDamaged says that the bytes of a file are not those that were written.
var errDamaged = errors.New("the bytes on the disk have changed")

// lost reports whether the bytes of an artifact have changed, or are not there any more.
func lost(err error) bool { return errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) }

// damaged returns the error for an artifact whose bytes have changed.
func damaged(handle string) error {
	return &Error{Kind: ErrUnknown, Handle: handle, Detail: fmt.Sprintf("the bytes of the artifact %s were damaged or removed on the disk of this gateway; run the tool again to get a new one", handle)}
}

// sound reports whether an item has the bytes that were put. One that has not is discarded.
func (s *Local) sound(it *item) bool {
	c := it.content
	c.mu.Lock()
	read := c.unread == nil
	c.mu.Unlock()
	if read {
		return true
	}
	if c.attach() != nil {
		s.discard(it)
		return false
	}
	c.detach()
	return true
}
