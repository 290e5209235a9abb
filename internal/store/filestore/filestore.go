package filestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/store"
)

// name is the file in the folder, and bucket the part of it with the documents.
const name = "weir.db"

var bucket = []byte("docs")

// soon is how long a change waits for its place in the file with Options.Late.
const soon = 100 * time.Millisecond

// Options configures a Store.
type Options struct {
	// Dir is the folder. Open makes it, for its owner only.
	Dir string
	// MaxBytes bounds keys and values together.
	MaxBytes int64
	// MaxValue bounds the value of one document. 0 is store.MaxValue.
	MaxValue int
	// Writable accepts a folder in which other users may write.
	Writable bool
	// Late confirms changes before they are on the disk. They reach it within 100 ms; the end of the
	// process or of power before that loses them. Otherwise each change is on the disk when it is
	// confirmed.
	Late bool
	// Existing makes Open fail with ErrLost if there are no documents.
	Existing bool
	// Logger gets a message when the disk takes no changes, and when it does again. Nil discards them.
	Logger *slog.Logger
}

// ErrLost is returned by Open if the folder has no documents and should.
var ErrLost = errors.New("the documents are lost")

// Store is Docs in a file. All methods may be called concurrently.
type Store struct {
	*store.Memory
	o      Options
	db     *bbolt.DB
	unlock func()

	mu     sync.Mutex // guards below
	late   []store.Kept
	failed error // of the last write
	wake   chan struct{}

	end  context.CancelFunc
	work sync.WaitGroup
}

// Open opens the documents of a folder, also of one that an older build has written. found says that there were some. It
// fails if another process uses the folder.
func Open(o Options) (s *Store, found bool, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	makeFolder := place.MakeFolder
	if o.Writable {
		makeFolder = func(dir string) error { return os.MkdirAll(dir, 0o700) }
	}
	if err := makeFolder(o.Dir); err != nil {
		return nil, false, err
	}
	free, cancel := context.WithCancel(context.Background())
	cancel() // a lock that is held is not waited for
	unlock, err := place.LockIn(free, filepath.Join(o.Dir, "lock"))
	switch {
	case errors.Is(err, context.Canceled):
		return nil, false, fmt.Errorf("another weir uses %s: stop it, or give this one a folder of its own", o.Dir)
	case err != nil:
		return nil, false, err
	}
	s = &Store{o: o, unlock: unlock, wake: make(chan struct{}, 1)}
	var docs []store.Kept
	if err = importOlder(o); err == nil {
		docs, found, err = s.open()
	}
	if err != nil {
		s.unlock()
		return nil, false, err
	}
	s.Memory = store.NewMemory(store.MemoryOptions{MaxBytes: o.MaxBytes, MaxValue: o.MaxValue, Keep: s.keep, Docs: docs})
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	if o.Late {
		s.work.Go(func() { s.write(ctx) })
	}
	return s, found, nil
}

// open opens the file and reads the documents.
func (s *Store) open() (docs []store.Kept, found bool, err error) {
	path := filepath.Join(s.o.Dir, name)
	if there, err := Exists(s.o.Dir); err != nil {
		return nil, false, err
	} else if s.o.Existing && !there {
		return nil, false, ErrLost
	}
	if s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		if found = b != nil; !found {
			return nil
		}
		return b.ForEach(func(key, value []byte) error {
			k, err := decode(key, value)
			if err == nil && !k.Ended() {
				docs = append(docs, k)
			}
			return err
		})
	})
	if err == nil && !found {
		err = s.db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucket); return err })
	}
	if err != nil {
		_ = s.db.Close()
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	return docs, found, nil
}

// Exists reports whether a folder has documents, or had some.
func Exists(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Create makes the documents of a folder that has none, all or nothing: their file gets its name when it
// is whole.
func Create(dir string, docs []store.Kept) error {
	path := filepath.Join(dir, name)
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(part, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(bucket)
		for i := 0; i < len(docs) && err == nil; i++ {
			err = b.Put([]byte(docs[i].Key), encode(docs[i]))
		}
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, path)
}

// encode returns the value of a document in the file: its revision, its end in nanoseconds since 1970 or
// 0, and its own value.
func encode(k store.Kept) []byte {
	var ends int64
	if !k.Ends.IsZero() {
		ends = k.Ends.UnixNano()
	}
	out := make([]byte, 16, 16+len(k.Value))
	binary.BigEndian.PutUint64(out, k.Rev)
	binary.BigEndian.PutUint64(out[8:], uint64(ends))
	return append(out, k.Value...)
}

func decode(key, value []byte) (k store.Kept, err error) {
	if len(value) < 16 {
		return k, fmt.Errorf("the document %.60q is broken: restore the folder from a backup", key)
	}
	k.Key, k.Rev, k.Value = string(key), binary.BigEndian.Uint64(value), slices.Clone(value[16:])
	if ends := int64(binary.BigEndian.Uint64(value[8:])); ends != 0 {
		k.Ends = time.Unix(0, ends)
	}
	return k, nil
}

// keep implements store.MemoryOptions.
func (s *Store) keep(changes []store.Kept) error {
	if !s.o.Late {
		return s.commit(changes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	s.late = append(s.late, changes...)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// commit writes changes as one transaction.
func (s *Store) commit(changes []store.Kept) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		for _, k := range changes {
			if k.Rev == 0 {
				if err := b.Delete([]byte(k.Key)); err != nil {
					return err
				}
			} else if err := b.Put([]byte(k.Key), encode(k)); err != nil {
				return err
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && s.failed != nil:
		s.o.Logger.Warn("the store takes writes again", "folder", s.o.Dir)
	case err != nil && s.failed == nil:
		s.o.Logger.Error("the store takes no writes until its disk does: make room there", "folder", s.o.Dir, "err", err)
	}
	if s.failed = nil; err != nil {
		s.failed = fmt.Errorf("%w: its disk takes no writes; operators make room there, and the log says where", store.ErrUnavailable) // agents read it: it names no folder
	}
	return s.failed
}

// write writes late changes until ctx ends, and then the rest. Changes that find no room wait for it;
// until then Set refuses further ones.
func (s *Store) write(ctx context.Context) {
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
		select {
		case <-time.After(soon):
		case <-ctx.Done():
		}
		s.mu.Lock()
		changes := s.late
		s.late = nil
		s.mu.Unlock()
		for len(changes) > 0 && s.commit(changes) != nil && ctx.Err() == nil {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// Close writes what is late, and frees the folder. Changes fail afterwards.
func (s *Store) Close() {
	s.end()
	s.work.Wait()
	if err := s.db.Close(); err != nil {
		s.o.Logger.Warn("the store was not closed", "folder", s.o.Dir, "err", err)
	}
	s.unlock()
}
