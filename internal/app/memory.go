package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/part"
)

// stores is the storage of this process for message and result bytes. Messages being received and
// stored results count against one limit; the overflow goes to files in one folder.
//
//	limits.memory ─▶ memory.Pool ─┬─ bodies of requests, messages of servers and peers
//	                              └─ artifact.Local ─┬▶ artifacts.dir, or a folder of weir's
//	                                                 └▶ the folder of a Store
type stores struct {
	pool  *memory.Pool
	store *artifact.Local
}

// openStores opens the configured storage, with the results that a Store has of an earlier process.
// The caller closes it.
func openStores(c *config.Config, outlasting *Store, log *slog.Logger) (*stores, error) {
	h := &stores{}
	limit := memory.PoolLimit(int64(c.Limits.Memory))
	po := memory.Options{Limit: limit, DiskBytes: int64(c.Artifacts.DiskBytes), Logger: log}
	so := artifact.Options{
		TTL: c.Artifacts.TTL, MaxBytes: int64(c.Artifacts.MaxBytes), MaxCount: c.Artifacts.MaxCount, TokenTTL: c.Artifacts.TokenTTL,
		MemoryBytes: min(int64(c.Artifacts.MemoryBytes), limit/2),
	}
	if c.Artifacts.DiskBytes > 0 {
		po.MakeDir = func() (string, error) { return h.store.Folder() }
		so.Dir, so.DiskBytes, so.DefaultDir = c.Artifacts.Dir, int64(c.Artifacts.DiskBytes), spillFolder
		so.Shelf = outlasting.shelf
	}
	so.Nodes, so.Secret = outlasting.nodes(), outlasting.Key().Secret("results")
	h.pool = memory.NewPool(po)
	so.Room = h.pool.Account("results")
	var err error
	if h.store, err = artifact.Open(so); err != nil {
		h.pool.Close()
		return nil, part.Setupf("%w", err)
	}
	return h, nil
}

// close discards everything.
func (h *stores) close() error {
	h.pool.Close()
	return h.store.Close()
}

// spillFolder returns the folder for files if artifacts.dir is not set: the user's cache folder,
// because the system's temporary folder is often in memory. Without a home directory it uses the
// temporary folder.
func spillFolder() (string, error) {
	var mkdirErr error
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "weir", "spill")
		if mkdirErr = os.MkdirAll(dir, 0o700); mkdirErr == nil {
			return dir, nil
		}
	}
	// No other process knows the folder's name. Files of a killed process stay until the system
	// cleans up.
	dir, err := os.MkdirTemp("", "weir-*") // 0700
	if err != nil {
		return "", fmt.Errorf("there is no folder for files; set artifacts.dir: %w", errors.Join(mkdirErr, err))
	}
	return dir, nil
}
