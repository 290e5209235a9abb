package config

import (
	"path/filepath"
	"strings"

	"github.com/weir-mcp/weir/internal/strict"
)

// Store configures where weir keeps what outlasts its process.
type Store struct {
	At       string    `key:"at" default:"memory" doc:"memory: nothing outlasts the process. file:DIR: a folder for this gateway alone; a relative one is relative to this file."`
	Sync     StoreSync `key:"sync" default:"always" enum:"always,interval" doc:"When a write to the folder is confirmed. always: when it is on the disk. interval: at once, and it reaches the disk within two minutes; a loss of power loses what did not."`
	MaxBytes Bytes     `key:"max_bytes" default:"1GB" min:"16777216" doc:"The bound on what is kept in the folder."`

	dir string
}

// StoreSync says when a write to the store is confirmed.
type StoreSync string

// The values of StoreSync.
const (
	SyncAlways   StoreSync = "always"
	SyncInterval StoreSync = "interval"
)

// Dir returns the folder of a store in files, "" for one in memory.
func (s *Store) Dir() string { return s.dir }

// The forms of store.at.
const (
	storeMemory = "memory"
	storeFile   = "file:"
)

func checkStore(d *decoder, c *Config) {
	const key = "store"
	s := &c.Store
	at := d.At("store.at")
	if s.At == storeMemory {
		for _, other := range []string{"store.sync", "store.max_bytes"} {
			if d.Set(other) {
				d.Warn(d.At(other), other, "%s has no effect with store: memory", other)
			}
		}
		return
	}
	if dir, ok := strings.CutPrefix(s.At, storeFile); ok && dir != "" {
		if strings.HasPrefix(dir, "//") {
			d.Fail(at, key, "store: %s names a folder, not a URL: write file:DIR, such as file:state or file:/var/lib/weir", strict.Clip(s.At))
			return
		}
		if !filepath.IsAbs(dir) && d.dir != "" {
			dir = filepath.Join(d.dir, dir)
		}
		s.dir = dir
		return
	}
	for _, later := range []string{"nats://", "tls://", "cluster:"} {
		if strings.HasPrefix(s.At, later) {
			d.Fail(at, key, "store: %s… is not in this version; use memory, or file:DIR for one gateway", later)
			return
		}
	}
	d.Fail(at, key, "store must be memory or file:DIR, not %q", strict.Clip(s.At))
}
