package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/result"
)

// Checker validates arguments. An upstream's schema and an agent's arguments can together require
// hours of computing. So a validation ends with its call and with the upstream's timeout, and only
// a few large ones run at a time. Small ones pay nothing for this.
type Checker struct {
	Turns *work.Turns
	// Timeout returns the time limit of a call to an upstream, 0 for none. It may be nil.
	Timeout func(upstream string) time.Duration
}

// Validate returns the error of catalog.Entry.ValidateWithin, an *Error if it took too long, or
// ctx's error.
func (k *Checker) Validate(ctx context.Context, e *catalog.Entry, args json.RawMessage) error {
	var m *work.Meter
	var timeout time.Duration
	err := e.ValidateWithin(args, func() *work.Meter {
		if k.Timeout != nil {
			timeout = k.Timeout(e.Upstream)
		}
		m = work.NewMeter(ctx, work.Options{Turns: k.Turns, Timeout: timeout})
		return m
	})
	m.Close()
	if errors.Is(err, work.ErrTime) {
		return &result.Error{Code: result.UpstreamTimeout, Cause: err, Message: fmt.Sprintf(
			"the arguments of %s, %d bytes, could not be checked against its schema within %s, the timeout of server %q; nothing was called", e.ID, len(args), timeout, e.Upstream)}
	}
	return err
}
