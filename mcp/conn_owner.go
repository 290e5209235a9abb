package mcp

import (
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// subscriber returns the subscriptions/listen call that a modern notification names.
func (c *Conn) subscriber(params []byte) *call {
	id := jsonrpc.ID(rawjson.GetPath(params, "_meta", MetaSubscriptionID))
	n, ok := id.Int()
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[n]
}

// soleCall returns the newest call in flight if all calls that can take messages belong to one
// session. Otherwise it returns the number of sessions. With hold, the call does not return before
// held.Done was called.
func (c *Conn) soleCall(hold bool) (newest *call, owners int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[any]bool{}
	for _, cl := range c.calls {
		if cl.back == nil {
			continue
		}
		seen[cl.owner] = true
		if newest == nil || cl.id > newest.id {
			newest = cl
		}
	}
	if len(seen) != 1 {
		return nil, len(seen)
	}
	if hold {
		newest.held.Add(1)
	}
	return newest, 1
}
