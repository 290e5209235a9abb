package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Names of files in the folder of a log.
const (
	headName   = "head"
	lockName   = "lock"
	publicName = "audit.pub"
	// KeyName is the file with the secret of a log without a configured one.
	KeyName = "key"
)

// maxLine bounds a record. Arguments are the largest part of it.
const maxLine = 2*maxArgs + 64<<10

// headSize is the size of the head file. It is less than a sector, so that a crash leaves the old
// one or the new one.
const headSize = 384

// A segment is a file of the log.
type segment struct {
	n    int
	day  string // all of its records are of this day, in UTC
	path string
}

var segmentName = regexp.MustCompile(`^([0-9]{6,12})-([0-9]{4}-[0-9]{2}-[0-9]{2})\.jsonl$`)

// segmentPath returns the path of a segment.
func segmentPath(dir string, n int, day string) string {
	return filepath.Join(dir, fmt.Sprintf("%06d-%s.jsonl", n, day))
}

// segments returns the segments of a folder in their order.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []segment
	for _, e := range entries {
		if m := segmentName.FindStringSubmatch(e.Name()); m != nil && e.Type().IsRegular() {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, err
			}
			found = append(found, segment{n, m[2], filepath.Join(dir, e.Name())})
		}
	}
	slices.SortFunc(found, func(a, b segment) int { return a.n - b.n })
	for i := 1; i < len(found); i++ {
		if found[i].n == found[i-1].n {
			return nil, fmt.Errorf("%s and %s have the same number", found[i-1].path, found[i].path)
		}
	}
	return found, nil
}

// dayOf returns a time's day as in the name of a segment.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// over reports whether all records of a segment are older than keep.
func (s segment) over(keep time.Duration, now time.Time) bool {
	day, err := time.Parse(time.DateOnly, s.day)
	return err == nil && keep > 0 && now.Sub(day.AddDate(0, 0, 1)) > keep
}

// head describes the newest record of a log. It shows that records at the end are missing.
type head struct {
	Log    string `json:"log"`
	Seq    uint64 `json:"seq"`
	Hash   string `json:"hash"`
	Signed uint64 `json:"signed"` // the last signature
}

func (h head) bytes() []byte {
	data, err := json.Marshal(h)
	if err != nil {
		panic(err) // cannot happen: texts and numbers
	}
	data = append(data, bytes.Repeat([]byte{' '}, max(0, headSize-1-len(data)))...)
	return append(data, '\n')
}

// readHead returns the head of a folder's log. A folder without one has the zero head.
func readHead(dir string) (h head, err error) {
	data, err := os.ReadFile(filepath.Join(dir, headName))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err = d.Decode(&h); err != nil || !bytes.Equal(h.bytes(), data) {
		return head{}, errors.New("the file head is damaged")
	}
	return h, nil
}

// tail is the readable end of a segment.
type tail struct {
	last line   // the last record; its raw is a copy
	end  int64  // where it ends
	torn []byte // the records after it
}

// maxTorn is how much of a segment's end is searched for its last record.
const maxTorn = 4 * maxLine

// readTail finds the last record of a segment whose own hash is right.
func readTail(path string) (t tail, err error) {
	f, err := os.Open(path)
	if err != nil {
		return t, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	from := max(0, info.Size()-maxTorn)
	data := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(data, from); err != nil && !errors.Is(err, io.EOF) {
		return t, err
	}
	for end := bytes.LastIndexByte(data, '\n'); end >= 0; end = bytes.LastIndexByte(data[:end], '\n') {
		start := bytes.LastIndexByte(data[:end], '\n') + 1
		if l, err := readLine(data[start:end]); err == nil {
			l.raw = slices.Clone(l.raw)
			return tail{l, from + int64(end) + 1, slices.Clone(data[end+1:])}, nil
		}
	}
	return tail{end: from, torn: data}, nil
}
