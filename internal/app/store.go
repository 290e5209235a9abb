package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
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

// A Store is what a gateway keeps beyond its process. A nil Store keeps nothing.
type Store struct {
	file   *filestore.Store // of file:DIR
	docs   store.Docs
	ids    *sessionid.Ids
	shelf  *artifact.Shelf
	key    *seal.Key
	node   *cluster.Node // nil: this gateway is one node
	bus    store.Bus     // between nodes; nil without node
	name   string        // of the cluster
	link   net.Listener  // for other nodes; nil without node
	trust  *tls.Config   // of link
	log    *slog.Logger
	shared shared                 // with other gateways; empty for a store in files
	events *natsstore.Events      // of all gateways; nil if they are not configured
	stream *telemetry.EventStream // into events; nil without them
	self   atomic.Pointer[func() cluster.Self]
	// unshared counts listings that are too large for other nodes.
	unshared atomic.Int64
}

// OpenStore opens the configured store; it returns nil for one in memory. The caller closes it, or
// passes it to New.
func OpenStore(ctx context.Context, c *config.Config, log *slog.Logger) (*Store, error) {
	dir := c.Store.Dir()
	if dir == "" && !c.Store.Shared() {
		return nil, nil
	}
	s := &Store{log: log}
	var err error
	if dir == "" {
		err = s.openShared(ctx, c, log)
	} else {
		err = s.open(ctx, dir, c, log)
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
	s.docs, s.ids, s.key = docs, sessionid.New(key, docs, log), key
	s.shelf = &artifact.Shelf{Docs: docs, Dir: filepath.Join(dir, storeResults), Late: late}
	if err := place.MakeFolder(s.shelf.Dir); err != nil {
		return err
	}
	return place.Usable(s.shelf.Dir)
}

// results makes artifacts with a handle outlast the process, if there is a store in files and files are
// allowed.
func (s *Store) results(o *artifact.Options) {
	if s != nil && s.shelf != nil {
		o.Shelf, o.Secret = s.shelf, s.key.Secret("results")
	}
}

// restoreTimeout bounds how long it takes to read what is restored at the start.
const restoreTimeout = 30 * time.Second

// leaveTimeout bounds how long the end of a node waits for the store.
const leaveTimeout = 2 * time.Second

// restore returns the state of a gateway and the agents that have registered, with what the store has
// of an earlier one.
func (s *Store) restore(log *slog.Logger) (*metatool.State, *registry.Kept, error) {
	state := metatool.NewState()
	if s == nil {
		return state, nil, nil
	}
	if s.node != nil {
		state.Share(s.docs, func() int { return len(s.node.Peers()) }, distantTasks(s.node))
		cluster.OnDrain(s.node, state.Yield)
		state.ShareBodies(distantBodies(s.node))
	}
	if s.node != nil || s.shared.docs != nil { // what the rest keeps has one writer
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

// invocations returns the secrets of which those of registered agents are made: with a store, ones that a
// restart does not change. The first one signs.
func (s *Store) invocations() [][]byte {
	if s != nil {
		return s.key.Secrets("invocation")
	}
	master := make([]byte, 32)
	_, _ = rand.Read(master) // never fails
	return [][]byte{master}
}

// ownDocuments returns the documents that this process alone writes, nil if other nodes share the store.
func (s *Store) ownDocuments() store.Docs {
	if s == nil || s.node != nil || s.shared.docs != nil {
		return nil
	}
	return s.docs
}

// documents returns the documents of the store, nil without one.
func (s *Store) documents() store.Docs {
	if s == nil {
		return nil
	}
	return s.docs
}

// Close ends the store. What was confirmed stays.
func (s *Store) Close() {
	if s == nil {
		return
	}
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
// a restart; nil without a store.
func (s *Store) Sessions(path string) *sessionid.Endpoint {
	if s == nil {
		return nil
	}
	return s.ids.At(path)
}
