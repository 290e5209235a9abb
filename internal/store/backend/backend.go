package backend

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

// memoryBytes bounds the documents of a store in memory.
const memoryBytes = 64 << 20

// keyFile is the file of a folder with the key that seals what weir gives away.
const keyFile = "key"

// Config says which store to open. The zero value is a store in memory.
type Config struct {
	// Dir is the folder of a store in files; "" is another one.
	Dir string
	// Late confirms changes of files before they are on the disk.
	Late bool
	// MaxBytes bounds the documents, except for those in memory.
	MaxBytes int64
	// Servers are those of a store that several gateways share; without URLs it is another one.
	Servers natsstore.Servers
	// Cluster is the name of the gateways that share it. Documents are in the bucket weir_CLUSTER.
	Cluster string
	// Key is the key of a shared store.
	Key *seal.Key
	// Replicas is as in natsstore.Options.
	Replicas int
	// Copies says that a shared store keeps Blobs.
	Copies bool
	// Logger gets what the store has to say; nil discards it.
	Logger *slog.Logger
}

// Open opens a store. The caller closes it.
func Open(ctx context.Context, c Config) (store.Store, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Dir != "":
		s, err := openFiles(ctx, c)
		if err != nil {
			return nil, folderDenied(err, c.Dir)
		}
		return s, nil
	case len(c.Servers.URLs) > 0:
		return openShared(ctx, c)
	}
	return Memory(), nil
}

// local is a store that only this process uses.
type local struct {
	store.Docs
	bus   *store.MemoryBus
	key   *seal.Key
	lasts store.Lasts
	close func()
}

var _ store.Store = (*local)(nil)

// Memory returns a store that ends with the process.
func Memory() store.Store {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	key, err := seal.NewKey(base64.RawURLEncoding.EncodeToString(secret))
	if err != nil {
		panic(err) // cannot happen: the key has its length
	}
	return &local{Docs: store.NewMemory(store.MemoryOptions{MaxBytes: memoryBytes}), bus: store.NewMemoryBus(), key: key, close: func() {}}
}

// openFiles opens the documents and the key of a folder.
func openFiles(ctx context.Context, c Config) (store.Store, error) {
	// The key is made after the documents, so a key without documents says that these are lost. They
	// are not made then: the next start would take them for the ones that belong to the key.
	path := filepath.Join(c.Dir, keyFile)
	_, missing := os.Stat(path)
	docs, found, err := filestore.Open(filestore.Options{Dir: c.Dir, MaxBytes: c.MaxBytes, Late: c.Late, Existing: missing == nil, Logger: c.Logger})
	if errors.Is(err, filestore.ErrLost) {
		return nil, fmt.Errorf("%s has a key and no documents: restore all of it from a backup, or remove it to begin anew", c.Dir)
	}
	if err != nil {
		return nil, err
	}
	if found && missing != nil {
		c.Logger.Warn("the store has documents and no key: a new key is made, and sessions and handles of before are unknown; a backup of the key brings them back", "key", path)
	}
	key, err := makeKey(ctx, path)
	if err != nil {
		docs.Close()
		return nil, err
	}
	return &local{Docs: docs, bus: store.NewMemoryBus(), key: key, lasts: store.Machine, close: docs.Close}, nil
}

func makeKey(ctx context.Context, path string) (*seal.Key, error) {
	text, err := place.MakeKey(ctx, path)
	if err != nil {
		return nil, err
	}
	return seal.NewKey(text)
}

// Blobs implements store.Store.
func (*local) Blobs() store.Blobs { return store.NoBlobs{} }

// Bus implements store.Store.
func (l *local) Bus() store.Bus { return l.bus }

// Key implements store.Store.
func (l *local) Key() *seal.Key { return l.key }

// Lasts implements store.Store.
func (l *local) Lasts() store.Lasts { return l.lasts }

// Close implements store.Store.
func (l *local) Close() { l.close() }

// folderDenied adds to an error because weir may not use the folder of its store: which user needs it, and the fix.
func folderDenied(err error, dir string) error {
	var at *fs.PathError
	if dir == "" || !errors.Is(err, fs.ErrPermission) || !errors.As(err, &at) || !strings.HasPrefix(at.Path, dir) {
		return err
	}
	name := strconv.Itoa(os.Getuid())
	if u, unknown := user.Current(); unknown == nil {
		name = u.Username
	}
	fix := ""
	if runtime.GOOS != "windows" {
		fix = fmt.Sprintf(", such as with chown -R %s %s", name, dir)
	}
	return fmt.Errorf("%w: weir runs as the user %s, who may not use the folder %s: give the folder to that user%s, or name another one in store", err, name, dir, fix)
}
