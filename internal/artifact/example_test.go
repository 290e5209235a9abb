package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	docs "github.com/weir-mcp/weir/internal/store"
)

func TestMemory(t *testing.T) {
	testStore(t, func(t *testing.T, opts artifact.Options) *artifact.Local { return artifact.NewMemory(opts) })
}

func TestSpilling(t *testing.T) {
	testStore(t, func(t *testing.T, opts artifact.Options) *artifact.Local {
		opts.Dir, opts.MemoryBytes = t.TempDir(), 1
		return openLocal(t, opts)
	})
}

func TestHalfSpilling(t *testing.T) {
	testStore(t, func(t *testing.T, opts artifact.Options) *artifact.Local {
		opts.Dir, opts.MemoryBytes = t.TempDir(), 8
		return openLocal(t, opts)
	})
}

func TestShelved(t *testing.T) {
	testStore(t, func(t *testing.T, opts artifact.Options) *artifact.Local {
		opts.Shelf = &artifact.Shelf{Docs: docs.NewMemory(docs.MemoryOptions{}), Dir: t.TempDir(), Late: true}
		return openLocal(t, opts)
	})
}

func openLocal(t testing.TB, opts artifact.Options) *artifact.Local {
	t.Helper()
	s, err := artifact.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func Example() {
	store := artifact.NewMemory(artifact.Options{Secret: []byte("for a handle that can be printed")})
	defer store.Close()

	ctx := context.Background()
	a, err := store.Put(ctx, "ann", "text/plain", "notes:read", []byte("a long text"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, data, err := store.Get(ctx, "ann", a.Handle)
	fmt.Println(a.SizeBytes, string(data), err)
	_, _, err = store.Get(ctx, "bob", a.Handle)
	fmt.Println(errors.Is(err, artifact.ErrUnknown))
	// Output:
	// 11 a long text <nil>
	// true
}
