package queue

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
)

// maxTask bounds a task with its arguments and its result, in a store of this process only.
const maxTask = 1 << 30

// OpenMemory returns a store for tasks that lasts as long as the process.
func OpenMemory() *store.Memory { return store.NewMemory(store.MemoryOptions{MaxValue: maxTask}) }

// OpenFile opens the store of tasks in a folder, which it makes if there is none. Only one process may
// have it open. Other users may write in it, as in volumes of containers. A task that was accepted,
// started or ended survives a crash of the machine. Tasks in the log of an older build are imported once.
func OpenFile(dir string, log *slog.Logger) (*filestore.Store, error) {
	if err := importLog(dir, log); err != nil {
		return nil, fmt.Errorf("task store: %w", err)
	}
	s, _, err := filestore.Open(filestore.Options{Dir: dir, MaxValue: maxTask, Writable: true, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("task store: %w", err)
	}
	return s, nil
}

// Older builds kept tasks in an append-only log, of which importLog keeps a copy under the second name.
//
//	tasks.log = "weirtq1\n" entry…     entry = length u32 ▪ CRC-32C u32 ▪ body
//	body      = 'S' record as JSON  |  'D' id                  (little endian)
const (
	logName     = "tasks.log"
	importedLog = logName + ".imported"
	logMagic    = "weirtq1\n"
)

// importLog brings the tasks of an older build into the store of a folder that has none.
func importLog(dir string, log *slog.Logger) error {
	path := filepath.Join(dir, logName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	free, cancel := context.WithCancel(context.Background())
	cancel() // the lock of an older build that still runs is not waited for
	unlock, err := place.LockIn(free, filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("another process uses %s: give each agent a folder of its own: %w", dir, err)
	}
	defer unlock()
	if there, err := filestore.Exists(dir); there || err != nil {
		return err
	}
	records, whole, err := readLog(f)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	docs := make([]store.Kept, len(records))
	for i, r := range records {
		d := document{record: r}
		value, ttl, err := d.encode()
		if err != nil {
			return fmt.Errorf("import %s: task %s: %w", path, r.ID, err)
		}
		docs[i].Doc = store.Doc{Key: store.TaskKeys + own + "." + r.ID, Rev: uint64(i) + 1, Value: value}
		if ttl > 0 {
			docs[i].Ends = r.Ended.Add(ttl)
		}
	}
	if err := filestore.Create(dir, docs); err != nil {
		return err
	}
	log.Warn("the tasks of an older build were imported; its log can be removed", "tasks", len(docs), "whole", whole, "log", filepath.Join(dir, importedLog))
	return os.Rename(path, filepath.Join(dir, importedLog))
}

// readLog returns the tasks of a log in the order in which a queue has to learn of them. whole is false
// if a crash has torn its end.
func readLog(f io.Reader) (records []record, whole bool, err error) {
	r := bufio.NewReaderSize(f, 1<<20)
	magic := make([]byte, len(logMagic))
	switch _, err := io.ReadFull(r, magic); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.Is(err, io.EOF), nil // the process ended while it made the log
	case err != nil:
		return nil, false, err
	case string(magic) != logMagic:
		return nil, false, fmt.Errorf("this is no task log: it starts with %q", magic)
	}
	live := map[string]record{}
	for {
		body, err := readEntry(r)
		if err == io.EOF {
			whole = true
			break
		}
		if err != nil || !apply(live, body) {
			break
		}
	}
	records = slices.SortedFunc(maps.Values(live), func(a, b record) int {
		return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.Seq, b.Seq)) // those that wait have no end
	})
	return records, whole, nil
}

var errTorn = errors.New("the last entry is torn")

// readEntry reads the body of the next entry; io.EOF where the log ends.
func readEntry(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	var body []byte
	n := binary.LittleEndian.Uint32(head[:])
	if n > 0 && n <= maxTask {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r, int64(n))); err != nil {
			return nil, err
		}
	}
	if uint32(len(body)) != n || n == 0 || crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return body, nil
}

// apply makes the change of an entry. It returns false for one that cannot be read.
func apply(live map[string]record, body []byte) bool {
	var r record
	switch {
	case body[0] == 'D':
		delete(live, string(body[1:]))
		return true
	case body[0] != 'S' || json.Unmarshal(body[1:], &r) != nil || r.ID == "":
		return false
	}
	live[r.ID] = r
	return true
}
