package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Defaults of RetryPolicy.
const (
	defaultRetryBase = 100 * time.Millisecond
	defaultRetryMax  = 5 * time.Second
)

// RetryPolicy says when a call that failed on its way is made again
// (spec/gateway §4.5). The zero value makes every call once.
//
// A call that timed out, or whose connection broke, may have run. An operator
// who allows more than one attempt accepts that a tool runs twice.
type RetryPolicy struct {
	// MaxAttempts counts the first attempt, too; less than 2 is one.
	MaxAttempts int
	// BaseDelay is the time before the second attempt; it doubles each time. 0
	// is defaultRetryBase.
	BaseDelay time.Duration
	// MaxDelay bounds each delay; 0 is defaultRetryMax.
	MaxDelay time.Duration
	// Jitter is the part of each delay, from 0 to 1, of which a random share
	// is taken off.
	Jitter float64
	// Codes are the codes that are retried; nil is UpstreamTimeout and
	// UpstreamUnavailable.
	Codes []result.Code
	// Random returns a number in [0, 1); nil is a random one.
	Random func() float64
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.BaseDelay <= 0 {
		p.BaseDelay = defaultRetryBase
	}
	if p.MaxDelay <= 0 {
		p.MaxDelay = defaultRetryMax
	}
	if p.Codes == nil {
		p.Codes = []result.Code{result.UpstreamTimeout, result.UpstreamUnavailable}
	}
	if p.Random == nil {
		p.Random = rand.Float64
	}
	p.Jitter = min(max(p.Jitter, 0), 1)
	return p
}

// delay is the time before the attempt that follows n failed ones.
func (p RetryPolicy) delay(n int) time.Duration {
	d := p.MaxDelay
	if shift := n - 1; shift < 32 && p.BaseDelay <= p.MaxDelay>>shift {
		d = p.BaseDelay << shift
	}
	return d - time.Duration(p.Jitter*p.Random()*float64(d))
}

// retries reports whether err is a failure of the way to the upstream that the
// policy retries. What the upstream answered is no such failure, whatever it
// says: it has seen the call. Nor is what another attempt would not change.
func (p RetryPolicy) retries(err error) bool {
	var e *result.Error
	var answered *jsonrpc.Error
	return errors.As(err, &e) && slices.Contains(p.Codes, e.Code) && !errors.As(err, &answered) && !errors.Is(err, mcp.ErrFinal)
}

// wait is the time before the attempt that follows n failed ones, the last with
// err. A server that asks for a longer time gets it within MaxDelay; beyond, ok is
// false: to come back sooner would only add to what it suffers from.
func (p RetryPolicy) wait(n int, err error) (d time.Duration, ok bool) {
	asked := mcp.RetryAfter(err)
	return max(p.delay(n), asked), asked <= p.MaxDelay
}

// Retry is the link that makes a call again which failed on its way. Results
// with isError are results and pass.
func Retry(p RetryPolicy) Link {
	p = p.withDefaults()
	return func(next Dispatcher) Dispatcher {
		return DispatcherFunc(func(ctx context.Context, c *Call) (json.RawMessage, error) {
			for n := 1; ; n++ {
				result, err := next.Dispatch(ctx, c)
				if err == nil || n >= p.MaxAttempts || ctx.Err() != nil || !p.retries(err) {
					return result, err
				}
				delay, ok := p.wait(n, err)
				if !ok {
					return nil, err
				}
				timer := time.NewTimer(delay)
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
					return nil, err // the failure tells more than the end of waiting
				}
			}
		})
	}
}
