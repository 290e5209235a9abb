package dataplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Data is the way of results past the model: messages that are being received and results that were held back,
// whose bytes count against one limit, and the ways on which callers, servers and other nodes get them. The overflow
// goes to files in one folder.
//
//	limits.memory ─▶ memory.Pool ─┬─ bodies of requests, messages of servers and peers
//	                              └─ artifact.Local ─┬▶ artifacts.dir, or a folder of weir's
//	                                                 └▶ the folder of a store
//
// The fields never change.
type Data struct {
	Memory  *memory.Pool    // accounts for the bytes of messages
	Results *artifact.Local // stores results that were held back
	Kept    *Kept
	Plane   *Plane  // serves tables to other servers
	Bodies  *Bodies // of sync results at /mcps/NAME/mcp
}

// Needs are the things that Data stands on. The functions are called after Open has returned.
type Needs struct {
	Log    *slog.Logger
	Config func() *config.Config // the current one
	Store  *nodestore.Store
	// Redactor removes secrets from results, and Redacts reports whether results have none.
	Redactor func() *result.Redactor
	Redacts  func() bool
	// Audited returns a handler that tells the audit log of the requests to another one for tables.
	Audited func(*artifact.Local, http.Handler) http.Handler
	// Agents returns the addresses of the agents that are registered now, and AgentURL the URL of one of them, "" for
	// no agent.
	Agents   func() []plane.Peer
	AgentURL func(name string) string
	// TakeBody fills the body of a call at /mcp into the arguments of a principal's call at another node.
	TakeBody func(principal string, args json.RawMessage) (filled json.RawMessage, ok bool)
}

// Open opens the configured storage, with the results that the store has of an earlier process. The caller closes it.
func Open(c *config.Config, n Needs) (*Data, error) {
	d := &Data{}
	limit := memory.PoolLimit(int64(c.Limits.Memory))
	po := memory.Options{Limit: limit, DiskBytes: int64(c.Artifacts.DiskBytes), Logger: n.Log}
	so := artifact.Options{
		TTL: c.Artifacts.TTL, MaxBytes: int64(c.Artifacts.MaxBytes), MaxCount: c.Artifacts.MaxCount, TokenTTL: c.Artifacts.TokenTTL,
		MemoryBytes: min(int64(c.Artifacts.MemoryBytes), limit/2),
	}
	if c.Artifacts.DiskBytes > 0 {
		po.MakeDir = func() (string, error) { return d.Results.Folder() }
		so.Dir, so.DiskBytes, so.DefaultDir = c.Artifacts.Dir, int64(c.Artifacts.DiskBytes), spillFolder
		so.Shelf = n.Store.Shelf()
	}
	so.Nodes, so.Secret = remoteResults(n.Store, n.Log), n.Store.Key().Secret("results")
	d.Memory = memory.NewPool(po)
	so.Room = d.Memory.Account("results")
	var err error
	if d.Results, err = artifact.Open(so); err != nil {
		d.Memory.Close()
		return nil, part.Setupf("%w", err)
	}
	d.Kept = &Kept{store: d.Results, redactor: n.Redactor, redacts: n.Redacts, memory: d.Memory, log: n.Log}
	d.Plane = newPlane(d, &n)
	d.Bodies = newBodies(&n)
	return d, nil
}

// Routes are the paths at which nodes give each other results and bodies.
func (d *Data) Routes() peerlink.Routes {
	return peerlink.Routes{{Path: peerArtifacts, Serve: d.Kept.lend}, {Path: peerDispatched, Serve: d.Bodies.give}}
}

// Close discards everything. The Plane and the Bodies are closed before it.
func (d *Data) Close() error {
	d.Memory.Close()
	return d.Results.Close()
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
