package lockfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Name is the name of the file, next to the configuration.
const Name = "weir.lock"

// The versions of the file's form. A file has the later one if a definition in it has others.
const (
	format         = 1
	formatVariants = 2
)

// Bounds of the file.
const (
	maxFile       = 32 << 20 // bytes
	maxServers    = 1024
	maxDefinition = 64 << 10 // bytes of a definition whose text is kept; of longer ones, the hash
)

// lock is the contents of weir.lock.
type lock struct {
	Version int                      `json:"version"`
	Servers map[string]*lockedServer `json:"servers"`
}

// lockedServer has the definitions of one server that its operator last accepted.
type lockedServer struct {
	FirstSeen string `json:"first_seen"` // date in UTC
	Name      string `json:"name,omitempty"`
	Version   string `json:"version,omitempty"`
	Command   string `json:"command,omitempty"`
	URL       string `json:"url,omitempty"`
	// About is the server's description of itself: title, description and instructions.
	About     *definition            `json:"about,omitempty"`
	Tools     map[string]*definition `json:"tools,omitempty"`
	Prompts   map[string]*definition `json:"prompts,omitempty"`
	Templates map[string]*definition `json:"resource_templates,omitempty"`
}

// definition is one definition as it was agreed to.
type definition struct {
	Hash      string `json:"hash"`       // see hashOf
	FirstSeen string `json:"first_seen"` // date in UTC
	// Text is the definition itself, for weir trust diff. It is absent if it is long, see textOf.
	Text json.RawMessage `json:"definition,omitempty"`
	// Others are further definitions of the same key that were agreed to, the newest first. A server that
	// lists for each principal may have a definition for each. They have no others.
	Others []*definition `json:"others,omitempty"`
}

// errBroken is wrapped by errors about a file that exists and cannot be used.
var errBroken = errors.New("the lock cannot be used")

// readFile returns the contents of the file at path, and its bytes. A missing file is empty.
func readFile(path string) (*lock, []byte, error) {
	f, err := place.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newFile(), nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", errBroken, path, err)
	}
	parsed, err := parse(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w; restore it from version control, or remove it to trust the servers as they are now", errBroken, path, err)
	}
	return parsed, data, nil
}

func newFile() *lock { return &lock{Version: format, Servers: map[string]*lockedServer{}} }

// clone returns a lock that can be changed while others read this one. Definitions never change, so
// the two share them.
func (f *lock) clone() *lock {
	out := newFile()
	for name, s := range f.Servers {
		out.Servers[name] = s.clone()
	}
	return out
}

func (s *lockedServer) clone() *lockedServer {
	out := *s
	out.Tools, out.Prompts, out.Templates = maps.Clone(s.Tools), maps.Clone(s.Prompts), maps.Clone(s.Templates)
	return &out
}

// parse reads the contents of a file.
func parse(data []byte) (*lock, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	if err := rawjson.Valid(data); err != nil {
		return nil, fmt.Errorf("it is not JSON (%v)", err)
	}
	f := newFile()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("it does not have the form of a lock (%v)", err)
	}
	switch {
	case f.Version != format && f.Version != formatVariants:
		return nil, fmt.Errorf("its version is %d, and this weir reads versions %d and %d", f.Version, format, formatVariants)
	case len(f.Servers) > maxServers:
		return nil, fmt.Errorf("it has more than %d servers", maxServers)
	}
	for name, s := range f.Servers {
		if s == nil {
			return nil, fmt.Errorf("server %q is null", name)
		}
		for kind, all := range s.kinds() {
			for key, d := range all {
				if err := d.check(); err != nil {
					return nil, fmt.Errorf("%s %q of server %q %w", kind, key, name, err)
				}
			}
		}
	}
	return f, nil
}

// Encode returns the contents of the file. Equal contents have equal bytes. Invisible characters are
// escaped, so that a reader of the file sees them.
func (f *lock) Encode() ([]byte, error) {
	data, err := f.encode()
	if err != nil || len(data) <= maxFile {
		return data, err
	}
	if data, err = f.withoutTexts().encode(); err == nil && len(data) > maxFile {
		return nil, fmt.Errorf("the lock would have more than %d bytes", maxFile)
	}
	return data, err
}

func (f *lock) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(&lock{f.version(), f.Servers}); err != nil {
		return nil, err
	}
	return visible.JSON(b.Bytes()), nil
}

// version returns the version that the contents need.
func (f *lock) version() int {
	for _, s := range f.Servers {
		for _, all := range s.kinds() {
			for _, d := range all {
				if len(d.Others) > 0 {
					return formatVariants
				}
			}
		}
	}
	return format
}

// withoutTexts returns a copy that has only the hashes of definitions.
func (f *lock) withoutTexts() *lock {
	out := newFile()
	for name, s := range f.Servers {
		short := *s
		short.About = short.About.withoutText()
		short.Tools, short.Prompts, short.Templates = withoutTexts(s.Tools), withoutTexts(s.Prompts), withoutTexts(s.Templates)
		out.Servers[name] = &short
	}
	return out
}

func withoutTexts(all map[string]*definition) map[string]*definition {
	out := make(map[string]*definition, len(all))
	for name, d := range all {
		out[name] = d.withoutText()
	}
	return out
}

func (d *definition) withoutText() *definition {
	if d == nil {
		return nil
	}
	out := &definition{Hash: d.Hash, FirstSeen: d.FirstSeen}
	for _, o := range d.Others {
		out.Others = append(out.Others, o.withoutText())
	}
	return out
}

// Times of the turns that processes take with a file.
const (
	turnWait  = 5 * time.Second       // for other processes
	turnPause = 20 * time.Millisecond // between two tries
	turnLeft  = 30 * time.Second      // after which a writer counts as dead
)

// changeFile reads the file, applies fn and writes the result, while no other process does. The new
// contents are written next to the file, in a file that only one process can make, and then take its
// place: readers see the old contents or the new ones. If the file is gone, fn gets kept, the
// contents that were read last. changeFile returns the contents after it, and writes nothing if fn
// changes nothing.
func changeFile(ctx context.Context, path string, kept *lock, fn func(*lock) error) (*lock, []byte, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	next, err := takeTurn(ctx, path+".new")
	if err != nil {
		return nil, nil, err
	}
	done := false
	defer func() {
		if !done {
			_ = next.Close()
			_ = os.Remove(next.Name())
		}
	}()
	f, before, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	if before == nil {
		f = kept
	}
	if err := fn(f); err != nil {
		return nil, nil, err
	}
	data, err := f.Encode()
	if err != nil || bytes.Equal(data, before) {
		return f, data, err
	}
	if _, err = next.Write(data); err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Chmod(0o644), next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be written: %w", path, err)
	}
	done = true
	return f, data, nil
}

// takeTurn makes the file at path, which must not exist, and waits while another process has it.
func takeTurn(ctx context.Context, path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > turnLeft {
			_ = os.Remove(path) // its process died; the next try reports a failure
			continue
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process is writing %s: %w; if none is, remove that file", path, ctx.Err())
		case <-time.After(turnPause):
		}
	}
}
