package artifact

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// budget counts the bytes of all principals, in memory and in files, and gives out the files.
type budget struct {
	opts  *Options
	spill *folder // nil: nowhere

	mu     sync.Mutex // guards below; taken after ledger.mu
	memory int64
	disk   int64
}

// reserve takes n bytes of memory. It returns false if fewer are left.
func (b *budget) reserve(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opts.MemoryBytes > 0 && b.memory+n > b.opts.MemoryBytes || !b.opts.Room.Keep(n) {
		return false
	}
	b.memory += n
	return true
}

// reserveDisk takes n bytes of disk. Its error names the bound that is reached.
func (b *budget) reserveDisk(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spill == nil && b.opts.MemoryBytes <= 0 {
		return noRoom("a result of %d bytes: limits.memory is taken, %d bytes of it by results; raise it, or set %s so that results can go to disk",
			n, b.memory, b.opts.Setting("dir"))
	}
	if b.spill == nil {
		return noRoom("a result of %d bytes: %d of %d bytes of memory are taken; raise %s, or set %s so that results can go to disk",
			n, b.memory, b.opts.MemoryBytes, b.opts.Setting("memory_bytes"), b.opts.Setting("dir"))
	}
	return b.takeDisk(n)
}

// reserveShelf takes n bytes of disk for artifacts that outlast the process.
func (b *budget) reserveShelf(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takeDisk(n)
}

// takeDisk takes n bytes within DiskBytes. The caller holds mu.
func (b *budget) takeDisk(n int64) error {
	if b.disk+n > b.opts.DiskBytes {
		return noRoom("a result of %d bytes: %d of %d bytes on disk are taken; raise %s", n, b.disk, b.opts.DiskBytes, b.opts.Setting("disk_bytes"))
	}
	b.disk += n
	return nil
}

// free returns bytes of memory and of disk.
func (b *budget) free(memory, disk int64) {
	b.mu.Lock()
	b.memory -= memory
	b.disk -= disk
	b.mu.Unlock()
	b.opts.Room.Drop(memory)
}

// newContent copies data into memory, or into a file if memory is taken. In memory, data that lasts is
// kept itself: see Digest. The caller holds the content.
func (b *budget) newContent(data []byte, lasts bool) (*content, error) {
	c := &content{budget: b, size: int64(len(data)), holders: 1}
	if b.opts.Shelf != nil {
		return c, c.shelve(data, lasts)
	}
	if b.reserve(c.size) {
		c.data = ownBytes(data, lasts)
		return c, nil
	}
	if err := b.reserveDisk(c.size); err != nil {
		return nil, err
	}
	f, err := b.createFile("data")
	if err == nil {
		_, err = f.Write(data)
		err = closeWritten(f, err)
	}
	if err != nil {
		b.free(0, c.size)
		return nil, fmt.Errorf("spilling a result of %d bytes: %w", len(data), withoutPath(err))
	}
	c.file = f.Name()
	return c, nil
}

// ownBytes returns data itself if it lasts, or else a copy.
func ownBytes(data []byte, lasts bool) []byte {
	if lasts {
		return data
	}
	return bytes.Clone(data) // unlike make, it does not clear the memory first
}

// createFile makes an empty file that only this user can read.
func (b *budget) createFile(kind string) (*os.File, error) {
	dir, err := b.spill.path()
	if err != nil {
		return nil, err
	}
	var name [16]byte
	rand.Read(name[:])
	return os.OpenFile(filepath.Join(dir, kind+"-"+hex.EncodeToString(name[:])), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// removeFile removes a file that no artifact leads to any more. If that fails, the removal of the
// directory includes it.
func removeFile(name string) { _ = os.Remove(name) }

// totals returns the bytes that are taken now.
func (b *budget) totals() (memory, disk int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory, b.disk
}
