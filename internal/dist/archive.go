package dist

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"
)

// entry is a file within a package.
type entry struct {
	name    string
	data    []byte
	program bool // may be executed
}

func (e entry) mode() int64 {
	if e.program {
		return 0o755
	}
	return 0o644
}

// tarball packs entries in their order. Owners and the name of the host's system are left out.
func tarball(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	for _, e := range entries {
		head := &tar.Header{Name: e.name, Size: int64(len(e.data)), Mode: e.mode(), ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(head); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zipFile packs entries in their order, with the modes of Unix.
func zipFile(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		head := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at.UTC().Truncate(time.Second)}
		head.SetMode(fs.FileMode(e.mode()))
		f, err := w.CreateHeader(head)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := f.Write(e.data); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// encode writes JSON as people write it: two spaces, no HTML escapes, a newline at the end.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
