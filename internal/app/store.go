package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
)

// storeKey is the file of the store's folder with the key that seals what weir gives away.
const storeKey = "key"

// storeResults is the folder in it with the bytes of results that were held back.
const storeResults = "artifacts"

// A Store is what a gateway keeps: in memory, in a folder, or with other gateways. It also has this process as a node of
// these gateways, which is cluster.Solo for the only one.
type Store struct {
	lasts  store.Lasts
	file   *filestore.Store // of file:DIR
	docs   store.Docs
	ids    *sessionid.Ids
	shelf  *artifact.Shelf
	key    *seal.Key
	node   *cluster.Node
	bus    store.Bus    // between nodes; nil for the only one
	name   string       // of the cluster
	link   net.Listener // for other nodes; nil for the only one
	trust  *tls.Config  // of link
	log    *slog.Logger
	shared shared                 // with other gateways; empty for a store in files
	events *natsstore.Events      // of all gateways; nil if they are not configured
	stream *telemetry.EventStream // into events; nil without them
	self   atomic.Pointer[func() cluster.Self]
	// unshared counts listings that are too large for other nodes.
	unshared atomic.Int64
}

// memoryDocuments bounds the documents of a store in memory.
const memoryDocuments = 64 << 20

// memoryStore returns a store that ends with the process.
func memoryStore(log *slog.Logger) *Store {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	key, err := seal.NewKey(base64.RawURLEncoding.EncodeToString(secret))
	if err != nil {
		panic(err) // cannot happen: the key has its length
	}
	s := &Store{log: log}
	s.alone(store.NewMemory(store.MemoryOptions{MaxBytes: memoryDocuments}), key)
	return s
}

// alone completes a store that only this process uses.
func (s *Store) alone(docs store.Docs, key *seal.Key) {
	s.docs, s.key, s.ids, s.node = docs, key, sessionid.New(key, docs, s.log), cluster.Solo(docs)
}

// OpenStore opens the configured store. The caller closes it, or passes it to New.
func OpenStore(ctx context.Context, c *config.Config, log *slog.Logger) (*Store, error) {
	dir := c.Store.Dir()
	s := memoryStore(log)
	var err error
	switch {
	case dir != "":
		s.lasts = store.Machine
		err = s.open(ctx, dir, c, log)
	case c.Store.Shared():
		err = s.openShared(ctx, c, log)
	}
	if err == nil {
		err = s.openEvents(c, log)
	}
	if err != nil {
		s.Close()
		return nil, setupf("store: %w", folderDenied(err, dir))
	}
	return s, nil
}

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

func (s *Store) open(ctx context.Context, dir string, c *config.Config, log *slog.Logger) (err error) {
	late := c.Store.Sync == config.SyncInterval
	// The key is made after the documents, so a key without documents says that these are lost. They
	// are not made then: the next start would take them for the ones that belong to the key.
	path := filepath.Join(dir, storeKey)
	_, missing := os.Stat(path)
	docs, found, err := filestore.Open(filestore.Options{Dir: dir, MaxBytes: int64(c.Store.MaxBytes), Late: late, Existing: missing == nil, Logger: log})
	if errors.Is(err, filestore.ErrLost) {
		return fmt.Errorf("%s has a key and no documents: restore all of it from a backup, or remove it to begin anew", dir)
	}
	if err != nil {
		return err
	}
	s.file = docs
	if found && missing != nil {
		log.Warn("the store has documents and no key: a new key is made, and sessions and handles of before are unknown; a backup of the key brings them back", "key", path)
	}
	text, err := place.MakeKey(ctx, path)
	if err != nil {
		return err
	}
	key, err := seal.NewKey(text)
	if err != nil {
		return err
	}
	s.alone(docs, key)
	s.shelf = &artifact.Shelf{Docs: docs, Dir: filepath.Join(dir, storeResults), Late: late}
	if err := place.MakeFolder(s.shelf.Dir); err != nil {
		return err
	}
	return place.Usable(s.shelf.Dir)
}

// Lasts returns what the store outlasts.
func (s *Store) Lasts() store.Lasts { return s.lasts }

// restoreTimeout bounds how long it takes to read what is restored at the start.
const restoreTimeout = 30 * time.Second

// leaveTimeout bounds how long the end of a node waits for the store.
const leaveTimeout = 2 * time.Second

// restore returns the state of a gateway and the agents that have registered, with what the store has
// of an earlier one.
func (s *Store) restore(log *slog.Logger) (*metatool.State, *registry.Kept, error) {
	state := metatool.NewState()
	switch s.lasts {
	case store.Process:
		return state, nil, nil
	case store.Cluster: // several nodes write what the rest keeps
		state.Share(s.docs, func() int { return len(s.node.Peers()) }, distantTasks(s.node))
		cluster.OnDrain(s.node, state.Yield)
		state.ShareBodies(distantBodies(s.node))
		return state, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	err := state.Keep(ctx, s.docs, log)
	var agents *registry.Kept
	if err == nil {
		agents, err = registry.ReadKept(ctx, s.docs)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	return state, agents, nil
}

// invocations returns the secrets of which the secrets of registered agents are made. They last as long as the store. The
// first one signs.
func (s *Store) invocations() [][]byte { return s.key.Secrets("invocation") }

// ownDocuments returns documents that outlast the process and that no other process writes, nil if the store has none.
func (s *Store) ownDocuments() store.Docs {
	if s.lasts != store.Machine {
		return nil
	}
	return s.docs
}

// documents returns the documents of a store that outlasts the process, nil for another one.
func (s *Store) documents() store.Docs {
	if s.lasts == store.Process {
		return nil
	}
	return s.docs
}

// Close ends the store. What was confirmed stays.
func (s *Store) Close() {
	s.stream.Close()
	s.leave()
	if s.link != nil {
		_ = s.link.Close() // the HTTP server may have closed it
	}
	s.shared.close()
	if s.file != nil {
		s.file.Close()
	}
}

// Sessions returns the ids of the legacy sessions at a path, from which they can be made again after
// a restart; nil if the store ends with the process.
func (s *Store) Sessions(path string) *sessionid.Endpoint {
	if s.lasts == store.Process {
		return nil
	}
	return s.ids.At(path)
}
