package app

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/memory"
)

// holdings are where this process keeps the bytes of others: messages in reception
// and results count against one limit, and what has no room there goes to files of
// one folder.
//
//	limits.memory ─▶ memory.Pool ─┬─ bodies of requests, messages of servers and peers
//	                              └─ artifact.Local ─▶ artifacts.dir, or a folder of weir's
type holdings struct {
	pool  *memory.Pool
	store *artifact.Local
}

// openHoldings opens what a configuration describes. The caller closes it.
func openHoldings(c *config.Config, log *slog.Logger) (*holdings, error) {
	h := &holdings{}
	limit := memoryLimit(int64(c.Limits.Memory), groupLimit())
	po := memory.Options{Limit: limit, DiskBytes: int64(c.Artifacts.DiskBytes), Logger: log}
	so := artifact.Options{
		TTL: c.Artifacts.TTL, MaxBytes: int64(c.Artifacts.MaxBytes), MaxCount: c.Artifacts.MaxCount, TokenTTL: c.Artifacts.TokenTTL,
		MemoryBytes: min(int64(c.Artifacts.MemoryBytes), limit/2),
	}
	if c.Artifacts.DiskBytes > 0 {
		po.MakeDir = func() (string, error) { return h.store.Folder() }
		so.Dir, so.DiskBytes, so.DefaultDir = c.Artifacts.Dir, int64(c.Artifacts.DiskBytes), spillFolder
	}
	h.pool = memory.NewPool(po)
	so.Room = h.pool.Account("results")
	var err error
	if h.store, err = artifact.Open(so); err != nil {
		h.pool.Close()
		return nil, setupf("%w", err)
	}
	return h, nil
}

// close forgets everything.
func (h *holdings) close() error {
	h.pool.Close()
	return h.store.Close()
}

// memoryLimit is the limit of a Pool: what is configured, or the default, of which
// a control group's limit leaves half for everything else.
func memoryLimit(configured, group int64) int64 {
	switch {
	case configured > 0:
		return configured
	case group > 0:
		return min(memory.DefaultLimit, max(group/2, leastMemory))
	}
	return memory.DefaultLimit
}

// leastMemory is below what no control group brings the limit.
const leastMemory = 8 << 20

func groupLimit() int64 { return memory.GroupLimit(os.DirFS("/")) }

// BoundHeap has the collector work harder as the heap comes near to the limit of the control group,
// where there is one. A quarter of that limit is left for what is not the heap: pages of files that
// are being read, and the programs of servers. A process whose environment sets GOMEMLIMIT does not
// call it.
func BoundHeap() {
	if group := groupLimit(); group > 0 {
		debug.SetMemoryLimit(heapLimit(group, debug.SetMemoryLimit(-1)))
	}
}

// heapLimit is the limit for the heap in a control group, never above the one that
// is in force.
func heapLimit(group, now int64) int64 {
	if now <= 0 {
		now = math.MaxInt64
	}
	return min(now, group/4*3)
}

// spillFolder is where files go without artifacts.dir: in the user's folder for
// what can be made again, which is on a disk where the one for temporary files is
// often memory. It is that one where there is no home.
func spillFolder() (string, error) {
	var why error
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "weir", "spill")
		if why = os.MkdirAll(dir, 0o700); why == nil {
			return dir, nil
		}
	}
	// No other process knows its name, so what a process that was killed leaves in it stays
	// until the system removes it.
	dir, err := os.MkdirTemp("", "weir-*") // 0700
	if err != nil {
		return "", fmt.Errorf("there is no folder for files; set artifacts.dir: %w", errors.Join(why, err))
	}
	return dir, nil
}
