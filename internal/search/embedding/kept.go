package embedding

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/store"
)

// Docs is the part of a store that keeps vectors.
type Docs interface {
	Get(ctx context.Context, key string) (store.Doc, error)
	Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error)
	Delete(ctx context.Context, key string, rev uint64) error
	List(ctx context.Context, prefix string) iter.Seq2[store.Doc, error]
}

const (
	keptPrefix  = store.VectorKeys
	keptShards  = 256
	maxShard    = 448 << 10 // bytes of vectors in one document
	keptVersion = 1
	keptTries   = 3
)

// digest identifies a text.
type digest [16]byte

// Kept is an Embedder whose vectors outlast the process, so that a restart asks only for vectors of new
// texts. The documents are 256 shards of at most 448 KB, by the text's digest; the newest vectors stay.
// Between Flush and the next Embed it holds no vector in memory. Its methods may run concurrently.
type Kept struct {
	next   search.Embedder
	docs   Docs
	prefix string // of the documents of this endpoint and model

	mu     sync.Mutex // guards below
	loaded bool
	known  map[digest][]float32
	fresh  map[digest][]float32
}

var _ search.Embedder = (*Kept)(nil)

// NewKept returns an Embedder that keeps the vectors of another one. of names endpoint, model and
// dimensions: vectors of others are not used, and are removed.
func NewKept(next search.Embedder, docs Docs, of Config) *Kept {
	name := store.Hash(fmt.Sprintf("%q %q %d", of.URL, of.Model, of.Dimensions))
	return &Kept{next: next, docs: docs, prefix: keptPrefix + name + "."}
}

// Embed implements search.Embedder. A store that does not answer costs a question to the endpoint.
func (k *Kept) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	digests := make([]digest, len(texts))
	var missing []string
	var at []int
	k.mu.Lock()
	k.load(ctx)
	for i, text := range texts {
		sum := sha256.Sum256([]byte(text))
		digests[i] = digest(sum[:16])
		if out[i] = k.known[digests[i]]; out[i] == nil {
			missing, at = append(missing, text), append(at, i)
		}
	}
	k.mu.Unlock()
	if len(missing) == 0 {
		return out, ctx.Err()
	}
	vectors, err := k.next.Embed(ctx, missing)
	if err != nil || len(vectors) != len(missing) {
		return vectors, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for j, i := range at {
		out[i] = vectors[j]
		k.known[digests[i]], k.fresh[digests[i]] = vectors[j], vectors[j]
	}
	return out, nil
}

// load reads the kept vectors. The caller holds mu.
func (k *Kept) load(ctx context.Context) {
	if k.loaded {
		return
	}
	k.loaded = true
	if k.known == nil {
		k.known, k.fresh = map[digest][]float32{}, map[digest][]float32{}
	}
	for doc, err := range k.docs.List(ctx, keptPrefix) {
		switch {
		case err != nil:
			return
		case !strings.HasPrefix(doc.Key, k.prefix):
			_ = k.docs.Delete(ctx, doc.Key, doc.Rev) // of another model
		default:
			decodeShard(doc.Value, func(d digest, v []float32) {
				if k.known[d] == nil {
					k.known[d] = v
				}
			})
		}
	}
}

// Flush keeps the vectors that are new, and lets go of those in memory. After an error, vectors that
// are not kept are asked for again by the next process.
func (k *Kept) Flush(ctx context.Context) error {
	k.mu.Lock()
	fresh := k.fresh
	k.loaded, k.known, k.fresh = false, nil, nil
	k.mu.Unlock()
	shards := map[byte]map[digest][]float32{}
	for d, v := range fresh {
		if shards[d[0]] == nil {
			shards[d[0]] = map[digest][]float32{}
		}
		shards[d[0]][d] = v
	}
	for shard, vectors := range shards {
		if err := k.write(ctx, fmt.Sprintf("%s%d", k.prefix, int(shard)%keptShards), vectors); err != nil {
			return fmt.Errorf("keep the vectors of search.embedding: %w", err)
		}
	}
	return nil
}

// write adds vectors to a shard.
func (k *Kept) write(ctx context.Context, key string, vectors map[digest][]float32) (err error) {
	for range keptTries {
		var doc store.Doc
		if doc, err = k.docs.Get(ctx, key); err != nil {
			continue
		}
		value := []byte{keptVersion}
		for d, v := range vectors {
			value = appendVector(value, d, v)
		}
		decodeShard(doc.Value, func(d digest, v []float32) {
			if _, newer := vectors[d]; !newer {
				value = appendVector(value, d, v)
			}
		})
		if _, err = k.docs.Set(ctx, key, value, doc.Rev, 0); err == nil || !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnavailable) {
			return err
		}
	}
	return err
}

// appendVector adds a vector to a shard that has room for it: digest, length, numbers.
func appendVector(shard []byte, d digest, v []float32) []byte {
	if len(shard)+len(d)+2+4*len(v) > maxShard || len(v) > math.MaxUint16 {
		return shard
	}
	shard = append(shard, d[:]...)
	shard = binary.LittleEndian.AppendUint16(shard, uint16(len(v)))
	for _, x := range v {
		shard = binary.LittleEndian.AppendUint32(shard, math.Float32bits(x))
	}
	return shard
}

// decodeShard calls f with the vectors of a shard, up to the first damaged one.
func decodeShard(shard []byte, f func(digest, []float32)) {
	rest, ok := bytes.CutPrefix(shard, []byte{keptVersion})
	for ok && len(rest) >= len(digest{})+2 {
		d := digest(rest[:len(digest{})])
		n := int(binary.LittleEndian.Uint16(rest[len(d):]))
		rest = rest[len(d)+2:]
		if n == 0 || len(rest) < 4*n {
			return
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
		}
		rest = rest[4*n:]
		f(d, v)
	}
}
