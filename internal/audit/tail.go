package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// followPause is the time between two looks for new records.
const followPause = 300 * time.Millisecond

// Tail calls f for the last n lines of a log, a folder or one file of it. With follow it goes on with
// lines that are written later, until ctx ends or f returns false. It checks nothing. raw is valid
// until f returns.
func Tail(ctx context.Context, path string, n int, follow bool, f func(raw []byte) bool) error {
	list, folder, err := sources(path)
	if err != nil {
		return err
	}
	var kept [][]byte
	at := len(list)
	var end int64 // of the last file, as far as it was read
	for at > 0 && (len(kept) < n || at == len(list)) {
		at--
		lines, read, err := lastLines(list[at].path, n-len(kept))
		if err != nil {
			return err
		}
		if at == len(list)-1 {
			end = read
		}
		kept = append(lines, kept...)
	}
	for _, raw := range kept {
		if !f(raw) {
			return nil
		}
	}
	if !follow {
		return nil
	}
	return followFrom(ctx, path, folder, list[len(list)-1], end, f)
}

// lastLines returns the last n whole lines of a file, and where they end.
func lastLines(path string, n int) (last [][]byte, end int64, err error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()
	var buf []byte
	for l := newLines(in); ; {
		if buf, err = l.read(buf); errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return last, end, nil
		} else if err != nil {
			return nil, 0, err
		}
		end = l.next
		if n <= 0 {
			continue
		}
		if len(last) == n {
			last = slices.Delete(last, 0, 1)
		}
		last = append(last, bytes.Clone(buf))
	}
}

// followFrom reads new records of a segment, then the segments after it.
func followFrom(ctx context.Context, path string, folder bool, s segment, from int64, f func(raw []byte) bool) error {
	pause := time.NewTicker(followPause)
	defer pause.Stop()
	for {
		next := s
		if folder {
			list, err := segments(path)
			if err != nil {
				return err
			}
			// Looked for before the segment is read: nothing is written to it after the next one
			// started.
			if i := slices.IndexFunc(list, func(o segment) bool { return o.n > s.n }); i >= 0 {
				next = list[i]
			}
		}
		more, end, err := linesFrom(s.path, from, f)
		if err != nil || !more {
			return err
		}
		if from = end; next.n != s.n {
			s, from = next, 0
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}

// linesFrom calls f for the whole lines of a file behind an offset.
func linesFrom(path string, from int64, f func(raw []byte) bool) (more bool, end int64, err error) {
	in, err := os.Open(path)
	if err != nil {
		return false, from, err
	}
	defer in.Close()
	if _, err := in.Seek(from, io.SeekStart); err != nil {
		return false, from, err
	}
	end = from
	var buf []byte
	for l := newLines(in); ; {
		if buf, err = l.read(buf); errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return true, end, nil
		} else if err != nil {
			return false, end, err
		}
		end = from + l.next
		if !f(buf) {
			return false, end, nil
		}
	}
}
