package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/work"
)

// Checker validates arguments. A schema is an upstream's and arguments are an
// agent's: together they can ask for hours of computing. It ends with the call, and
// with the time that the upstream has for one; only so many large ones run at a
// time, and small ones cost what they cost without all this.
type Checker struct {
	Turns *work.Turns
	// Timeout is how long a call of an upstream may take, 0 for no limit; it may
	// be nil.
	Timeout func(upstream string) time.Duration
}

// Validate returns the error of catalog.Entry.ValidateWithin, an *Error where it
// took too long, or that of ctx.
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
