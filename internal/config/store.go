package config

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Store configures where weir keeps state that outlasts its process.
type Store struct {
	At       string    `key:"at" default:"memory" doc:"memory: nothing outlasts the process. file:DIR: a folder for this gateway alone. nats://HOST:PORT,…, or tls://: NATS servers 2.12 or newer with JetStream, which any number of gateways share; a password in them is best ${VAR}. A relative folder is relative to this file."`
	Sync     StoreSync `key:"sync" default:"always" enum:"always,interval" doc:"When a write to the folder is confirmed. always: when it is on the disk. interval: at once, and it reaches the disk within 100 ms; a crash or a loss of power loses what did not. Servers elsewhere have a setting of their own, sync_interval."`
	MaxBytes Bytes     `key:"max_bytes" default:"1GB" min:"16777216" doc:"The bound on what is kept."`
	Replicas int       `key:"replicas" default:"0" min:"0" max:"5" doc:"How many servers keep each document, with nats://: 1, 3 or 5. 0: 3, or 1 where there is one server."`
	Creds    string    `key:"creds" doc:"A file of credentials for nats://."`
	CA       string    `key:"ca" doc:"A file of the authorities whose certificates the servers of nats:// have. Default: those of the system."`
	Cert     string    `key:"cert" doc:"A file with a client certificate for nats://, with store.key."`
	Key      string    `key:"key" doc:"The file of the private key of store.cert."`

	dir  string
	urls []string
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

// URLs returns the servers of a store that runs elsewhere; none for all others.
func (s *Store) URLs() []string { return s.urls }

// Shared reports whether other gateways use the store as well.
func (s *Store) Shared() bool { return len(s.urls) > 0 }

// The forms of store.at.
const (
	storeMemory = "memory"
	storeFile   = "file:"
)

func checkStore(d *decoder, c *Config) {
	const key = "store"
	s := &c.Store
	at := d.At("store.at")
	folder, inFile := strings.CutPrefix(s.At, storeFile)
	elsewhere := strings.HasPrefix(s.At, "nats://") || strings.HasPrefix(s.At, "tls://")
	switch {
	case s.At == storeMemory:
		idle(d.Decoder, s.At, "store.sync", "store.max_bytes", "store.replicas")
	case inFile && folder != "":
		idle(d.Decoder, s.At, "store.replicas")
		s.dir = storeFolder(d, s.At, folder)
	case elsewhere:
		idle(d.Decoder, "nats://…", "store.sync")
		checkNATS(d, s)
	case strings.HasPrefix(s.At, "cluster:"): // of builds with NATS servers of their own
		d.Fail(at, key, "store: %s is gone: gateways keep no documents for each other; run NATS servers with JetStream, and write store: nats://HOST:4222,… (docs/cluster.md shows both)", strict.Clip(s.At))
		return
	default:
		got := strconv.Quote(strict.Clip(s.At))
		if strings.Contains(s.At, "@") {
			got = "a text with a password"
		}
		d.Fail(at, key, "store must be memory, file:DIR or nats://HOST:PORT, not %s", got)
		return
	}
	if !elsewhere {
		idle(d.Decoder, s.At, "store.creds", "store.ca", "store.cert", "store.key")
	}
	if s.Replicas == 2 || s.Replicas == 4 {
		d.Fail(d.At("store.replicas"), "store.replicas", "store.replicas must be 1, 3 or 5, not %d: with an even number, no more servers may fail", s.Replicas)
	}
	checkCluster(d.Decoder, c)
}

// idle warns of keys that a store does not read.
func idle(d *strict.Decoder, at string, keys ...string) {
	for _, key := range keys {
		if d.Set(key) {
			d.Warn(d.At(key), key, "%s has no effect with store: %s", key, strict.Clip(at))
		}
	}
}

// storeFolder returns the folder of a store.
func storeFolder(d *decoder, at, dir string) string {
	if strings.HasPrefix(dir, "//") {
		kind, _, _ := strings.Cut(at, ":")
		d.Fail(d.At("store.at"), "store", "store: %s names a folder, not a URL: write %s:DIR, such as %s:state or %s:/var/lib/weir", strict.Clip(at), kind, kind, kind)
		return dir
	}
	if dir == "~" || strings.HasPrefix(dir, "~/") {
		d.Fail(d.At("store.at"), "store", "store: %s would be a folder with the name ~: write the whole path", strict.Clip(at))
	}
	if !filepath.IsAbs(dir) && d.dir != "" {
		dir = filepath.Join(d.dir, dir)
	}
	return dir
}
