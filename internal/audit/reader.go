package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// lines reads the records of a segment, one at a time.
type lines struct {
	r      *bufio.Reader
	offset int64 // of the line that was read last
	next   int64
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// errTorn is the error of a last line without an end.
var errTorn = errors.New("the line does not end")

// read returns the next line without its end, a slice that is valid until the next read.
func (l *lines) read(buf []byte) ([]byte, error) {
	l.offset = l.next
	buf = buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.next += int64(len(part))
		if len(buf)+len(part) > maxLine {
			return buf, fmt.Errorf("the line is longer than %d bytes", maxLine)
		}
		buf = append(buf, part...)
		switch {
		case err == nil:
			return buf[:len(buf)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(buf) > 0:
			return buf, errTorn
		default:
			return buf, err
		}
	}
}

// firstLine returns the first record of a segment.
func firstLine(path string) (line, error) {
	f, err := os.Open(path)
	if err != nil {
		return line{}, err
	}
	defer f.Close()
	raw, err := newLines(f).read(nil)
	if err != nil {
		return line{}, fmt.Errorf("%s: %w", path, err)
	}
	first, err := readLine(bytes.Clone(raw))
	if err != nil {
		return line{}, fmt.Errorf("%s: %w", path, err)
	}
	return first, nil
}

// sources returns the files to read: the segments of a folder, or one file.
func sources(path string) (list []segment, folder bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, false, err
	case !info.IsDir():
		return []segment{{path: path}}, false, nil
	}
	list, err = segments(path)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s has no segments of an audit log (files like 000001-2026-01-31.jsonl)", path)
	}
	return list, true, err
}

// Each calls f for each line of a log, a folder or one file of it, until f returns false. It checks
// nothing and leaves out an unfinished last line. raw is valid until f returns.
func Each(path string, f func(raw []byte) bool) error {
	list, _, err := sources(path)
	if err != nil {
		return err
	}
	var buf []byte
	for _, s := range list {
		ok, err := eachOf(s.path, &buf, f)
		if err != nil || !ok {
			return err
		}
	}
	return nil
}

func eachOf(path string, buf *[]byte, f func(raw []byte) bool) (bool, error) {
	in, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	for l := newLines(in); ; {
		*buf, err = l.read(*buf)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errTorn):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("%s at byte %d: %w", path, l.offset, err)
		}
		if !f(*buf) {
			return false, nil
		}
	}
}
