package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// onceLife is how long the use of an approval is known: longer than its state lives, whichever clock the nodes have.
const onceLife = 10 * time.Minute

// useOnce implements Nodes.Once over documents.
func useOnce(ctx context.Context, docs store.Docs, id string) error {
	own := fmt.Appendf(nil, `{"v":1,"id":%q,"by":%q}`, id, rand.Text()) // ids are base64
	_, err := store.Change(ctx, docs, store.OnceKeys+store.Hash(id), func(doc store.Doc) ([]byte, time.Duration, error) {
		switch {
		case doc.Rev == 0:
			return own, onceLife, nil
		case bytes.Equal(doc.Value, own): // a write whose outcome was not known
			return nil, 0, store.ErrKeep
		}
		return nil, 0, errUsed
	})
	return err
}
