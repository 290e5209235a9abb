package filestore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Older builds kept the documents in a stream of an embedded NATS server, whose files were in the folder olderFiles.
// They are imported once. Then the folder is importedFiles.
const (
	olderFiles    = "nats"
	olderBlocks   = "jetstream/$G/streams/KV_weir/msgs"
	olderPrefix   = "$KV.weir."
	importedFiles = "nats.imported"
)

// importOlder brings the documents of an older build into the file of the folder, if it has none.
func importOlder(o Options) error {
	from := filepath.Join(o.Dir, olderFiles)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if there, err := Exists(o.Dir); there || err != nil {
		return err
	}
	docs, err := readOlder(filepath.Join(from, filepath.FromSlash(olderBlocks)))
	if err == nil {
		err = Create(o.Dir, docs)
	}
	if err != nil {
		return fmt.Errorf("import the documents of an older build from %s: %w", from, err)
	}
	to := filepath.Join(o.Dir, importedFiles)
	o.Logger.Warn("the store of an older build was imported; its folder can be removed", "documents", len(docs), "folder", to)
	return os.Rename(from, to)
}

// readOlder returns the documents in the blocks of a stream, with their revisions.
func readOlder(dir string) (docs []store.Kept, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var blocks []int
	for _, f := range files {
		if number, ok := strings.CutSuffix(f.Name(), ".blk"); ok {
			n, err := strconv.Atoi(number)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, n)
		}
	}
	slices.Sort(blocks)
	s := olderStream{last: map[string]store.Kept{}, removed: map[uint64]bool{}}
	for _, n := range blocks {
		block, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(n, ".blk")))
		if err == nil {
			err = s.read(block)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, k := range s.last {
		if k.Rev != 0 && !s.removed[k.Rev] && !k.Ended() {
			docs = append(docs, k)
		}
	}
	return docs, nil
}

// olderStream is what was read of a stream.
type olderStream struct {
	last    map[string]store.Kept // by key; without revision: deleted
	removed map[uint64]bool       // sequences
}

// A record of a block: the length of all of it, the sequence, the time, the length of the subject, the subject, if bit
// olderHeaders of the first length is set the length of the headers and these, the value, and a sum of 8 bytes.
const (
	olderHeader  = 4 + 8 + 8 + 2
	olderSum     = 8
	olderHeaders = 1 << 31

	olderErased    = 1 << 63 // a bit of the sequence: the record was overwritten
	olderTombstone = 1 << 62 // a bit of the sequence: the record says that this sequence was removed
)

// read reads a block. Its end may be torn by a crash: then the record was never confirmed.
func (s *olderStream) read(block []byte) error {
	le := binary.LittleEndian
	for len(block) >= olderHeader {
		size := le.Uint32(block)
		whole := int(size &^ olderHeaders)
		if whole < olderHeader+olderSum || whole > len(block) {
			return nil
		}
		seq, at, subject := le.Uint64(block[4:]), time.Unix(0, int64(le.Uint64(block[12:]))), int(le.Uint16(block[20:]))
		rest := block[olderHeader : whole-olderSum]
		block = block[whole:]
		if seq&olderTombstone != 0 {
			s.removed[seq&^olderTombstone] = true
			continue
		}
		if seq&olderErased != 0 || subject > len(rest) {
			continue
		}
		key, ours := strings.CutPrefix(string(rest[:subject]), olderPrefix)
		if !ours {
			continue
		}
		k := store.Kept{Doc: store.Doc{Key: key, Rev: seq, Value: rest[subject:]}}
		if size&olderHeaders != 0 {
			if err := unwrapOlder(&k, at); err != nil {
				return fmt.Errorf("the document %s: %w", key, err)
			}
		}
		s.last[key] = k
	}
	return nil
}

// unwrapOlder takes the headers off the value of a document that was written at a time, and reads them: the document's end,
// or that it was deleted.
func unwrapOlder(k *store.Kept, at time.Time) error {
	if len(k.Value) < 4 || uint64(binary.LittleEndian.Uint32(k.Value)) > uint64(len(k.Value)-4) {
		return errors.New("its headers are broken")
	}
	text := k.Value[4:][:binary.LittleEndian.Uint32(k.Value)]
	k.Value = k.Value[4+len(text):]
	_, text, _ = bytes.Cut(text, []byte("\r\n")) // the version
	headers, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		return err
	}
	if headers.Get("KV-Operation") != "" || headers.Get("Nats-Marker-Reason") != "" {
		k.Rev = 0
		return nil
	}
	if ttl := headers.Get("Nats-TTL"); ttl != "" {
		life, err := time.ParseDuration(ttl)
		if err != nil {
			return err
		}
		k.Ends = at.Add(life)
	}
	return nil
}
