package artifact

import (
	"crypto/rand"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Defaults of Options.
const (
	defaultTTL         = time.Hour
	defaultMaxBytes    = 64 << 20
	defaultMaxCount    = 256
	defaultMemoryBytes = 256 << 20
	defaultDiskBytes   = 8 << 30
	defaultTokenTTL    = 10 * time.Minute // spec/tables §4
	defaultMaxTokens   = 8192

	// maxGone bounds how many handles of gone artifacts a principal's space remembers, and goneFor
	// for how long, so that "expired" and "unknown" can be distinguished.
	maxGone = 1024
	goneFor = 24 * time.Hour

	maxLabel = 200 // bytes of a label or a media type
)

// Options bounds a store. The zero value takes the defaults.
type Options struct {
	TTL      time.Duration // age at which an artifact goes; 0 is defaultTTL
	MaxBytes int64         // bytes a principal may hold, of both kinds; 0 is defaultMaxBytes
	MaxCount int           // artifacts with a handle that a principal may hold; 0 is defaultMaxCount

	// Dir is the folder for artifacts that do not fit in memory, and for tables beyond a
	// principal's bound. The store makes a private directory in it.
	Dir string
	// DefaultDir returns the folder of a store without Dir. It is called before the first file is
	// written. Nil keeps everything in memory.
	DefaultDir func() (string, error)
	// MemoryBytes bounds the bytes in memory of all principals together. 0 means defaultMemoryBytes
	// if there are files, and no bound otherwise.
	MemoryBytes int64
	// Room counts bytes in memory, in addition to MemoryBytes, together with the rest of the
	// process. Artifacts without room there go to Dir. Nil sets no bound.
	Room *memory.Account
	// DiskBytes bounds the bytes in files; 0 is defaultDiskBytes.
	DiskBytes int64
	// Shelf is where artifacts with a handle outlast the process. One that finds no room there is
	// refused. Nil keeps none beyond the process.
	Shelf *Shelf

	// Nodes names the node that the store is in, and reaches others. Nil is the only node.
	Nodes *Nodes

	TokenTTL  time.Duration // age at which a token goes; 0 is defaultTokenTTL
	MaxTokens int           // unspent tokens of one principal, beyond which none is made; 0 is defaultMaxTokens

	// Setting returns the name of a bound in errors. Its argument is a key of artifacts in
	// weir.yaml, such as "max_bytes"; nil writes artifacts.max_bytes.
	Setting func(key string) string

	Secret []byte           // from which each principal's secret is derived; empty is a random one for this store
	Now    func() time.Time // the clock; nil is time.Now
}

func (o Options) withDefaults() Options {
	if o.TTL <= 0 {
		o.TTL = defaultTTL
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxCount <= 0 {
		o.MaxCount = defaultMaxCount
	}
	if o.MemoryBytes <= 0 && (o.Dir != "" || o.DefaultDir != nil || o.Shelf != nil) {
		o.MemoryBytes = defaultMemoryBytes
	}
	if o.DiskBytes <= 0 {
		o.DiskBytes = defaultDiskBytes
	}
	if o.TokenTTL <= 0 {
		o.TokenTTL = defaultTokenTTL
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = defaultMaxTokens
	}
	if o.Setting == nil {
		o.Setting = func(key string) string { return "artifacts." + key }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Nodes == nil {
		o.Nodes = onlyNode()
	}
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret) // never fails: crypto/rand ends the program instead
	}
	return o
}
