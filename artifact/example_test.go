package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/artifact"
)

func TestMemory(t *testing.T) {
	testStore(t, func(t *testing.T, opts artifact.Options) artifact.Store { return artifact.NewMemory(opts) })
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
