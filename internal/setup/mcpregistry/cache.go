package mcpregistry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxCached bounds the answers in the cache.
const maxCached = 200

// cache keeps answers as files, for times without a network. The oldest go first.
type cache struct {
	dir string // "" keeps none
	now func() time.Time
}

// cached is the content of a cache file.
type cached struct {
	URL  string          `json:"url"`
	Time time.Time       `json:"time"`
	Body json.RawMessage `json:"body"`
}

func (c cache) path(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:16])+".json")
}

func (c cache) get(url string) (body []byte, age time.Duration, ok bool) {
	if c.dir == "" {
		return nil, 0, false
	}
	info, err := os.Stat(c.path(url))
	if err != nil || !info.Mode().IsRegular() || info.Size() > 2*maxAnswer {
		return nil, 0, false
	}
	data, err := os.ReadFile(c.path(url))
	var entry cached
	if err != nil || json.Unmarshal(data, &entry) != nil || entry.URL != url {
		return nil, 0, false
	}
	return entry.Body, max(c.now().Sub(entry.Time), time.Second), true
}

// put keeps an answer if it can. An answer that cannot be kept is missed only without a network.
func (c cache) put(url string, body []byte) {
	if c.dir == "" || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	data, err := json.Marshal(cached{url, c.now().UTC(), body})
	if err != nil {
		return
	}
	temp, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return
	}
	_, err = temp.Write(data)
	if errors.Join(err, temp.Close()) != nil || os.Rename(temp.Name(), c.path(url)) != nil {
		_ = os.Remove(temp.Name())
		return
	}
	trim(c.dir, maxCached)
}

// trim removes the oldest files of a folder, so that most are left. It does not remove folders.
func trim(dir string, most int) {
	files, err := os.ReadDir(dir)
	files = slices.DeleteFunc(files, os.DirEntry.IsDir)
	if err != nil || len(files) <= most {
		return
	}
	age := func(f os.DirEntry) time.Time {
		info, err := f.Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(files, func(a, b os.DirEntry) int { return age(a).Compare(age(b)) })
	for _, f := range files[:len(files)-most] {
		_ = os.Remove(filepath.Join(dir, f.Name())) // Another weir may have removed it.
	}
}
