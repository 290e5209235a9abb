package metatool

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// stuckDocs is a store in which one document can never be written.
type stuckDocs struct {
	store.Docs
	key string
}

func (s stuckDocs) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if key == s.key {
		return 0, store.ErrFull
	}
	return s.Docs.Set(ctx, key, value, rev, ttl)
}

// TestRecallAroundAFailure: a document that can never be written does not delay the others, and the log
// has the failure.
func TestRecallAroundAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(principal string) string { return "p." + store.Hash("principal\x00"+principal) }
		docs, log := store.NewMemory(store.MemoryOptions{}), new(bytes.Buffer)
		m := &recalls{docs: stuckDocs{docs, key("bad")}, log: slog.New(slog.NewTextHandler(log, nil))}
		offer := func(principal string) {
			s := mcp.NewSession("", principal)
			st := newSessionState(s)
			m.join(&mcp.Request{Version: mcp.V20260728, Session: s}, st)
			st.mu.Lock()
			st.offerLocked("a:x")
			st.mu.Unlock()
		}
		offer("bad")
		for i := range 20 {
			principal := fmt.Sprint("p", i)
			offer(principal)
			time.Sleep(2*recallDelay + time.Millisecond)
			if doc, err := docs.Get(t.Context(), key(principal)); err != nil || doc.Rev == 0 {
				t.Errorf("%s is not written: %v", principal, err)
			}
		}
		m.close()
		if n := strings.Count(log.String(), "level=WARN"); n == 0 || n > 5 {
			t.Errorf("%d lines in the log of 40 seconds:\n%s", n, log)
		}
	})
}

// TestRecallMergesInOrder: what is kept of several endpoints does not depend on the order in which a map
// has them.
func TestRecallMergesInOrder(t *testing.T) {
	c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "a", Namespace: "a"})
	var all []*sessionState
	for _, text := range []string{"as the first one shows it", "as the second one shows it"} {
		st := newSessionState(mcp.NewSession("", "ann"))
		st.arrange(c, []catalog.Card{{ID: "a:x", Kind: primitive.KindTool, Description: text}}, true)
		all = append(all, st)
	}
	one, other := snapshotOf(all).encode(), snapshotOf([]*sessionState{all[1], all[0]}).encode()
	if !bytes.Equal(one, other) {
		t.Errorf("%s\n%s", one, other)
	}
}
