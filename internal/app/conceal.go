package app

import (
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/redact"
)

// A concealer takes the configuration's credentials out of what servers say of
// themselves: their definitions reach agents, the console and the callers of `weir ls`. A
// reload changes the credentials; the servers whose entries it changes are listed anew.
// Safe for concurrent use.
type concealer struct{ credentials atomic.Pointer[redact.Set] }

// configure takes over the credentials of a configuration.
func (c *concealer) configure(conf *config.Config) {
	c.credentials.Store(redact.New(conf.Credentials()))
}

// listing returns a listing as it may be shown.
func (c *concealer) listing(l catalog.Listing) catalog.Listing {
	set := c.credentials.Load()
	if set == nil {
		return l
	}
	return l.Concealed(set.Replace)
}
