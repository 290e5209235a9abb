package metatool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// TestAgeOfAdopted: conditions see the age of a session since its handshake, not since its adoption.
func TestAgeOfAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, err := seal.NewKey(base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
		if err != nil {
			t.Fatal(err)
		}
		at := sessionid.New(key, store.NewMemory(store.MemoryOptions{}), nil).At("/mcp").Around(mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { return json.RawMessage("{}"), nil }), nil)
		first := mcp.NewSession("", "ann")
		id := at.Name(first)
		time.Sleep(time.Hour)
		s, err := at.Adopt(t.Context(), id, "ann")
		if err != nil || s == nil {
			t.Fatal(err)
		}
		if age := time.Since((&ledgers{}).own(s).Started).Round(time.Second); age != time.Hour {
			t.Errorf("the age is %v", age)
		}
	})
}
