package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Default values of RetryPolicy.
const (
	defaultRetryBase = 100 * time.Millisecond
	defaultRetryMax  = 5 * time.Second
)

// RetryPolicy decides when a failed call is made again (spec/gateway §4.5). The zero value makes
// every call once.
//
// A call that timed out, or whose connection broke, may have run. An operator who allows more than
// one attempt accepts that a tool may run twice.
type RetryPolicy struct {
	// MaxAttempts includes the first attempt; values below 2 mean one.
	MaxAttempts int
	// BaseDelay is the delay before the second attempt; it doubles each time. 0 means
	// defaultRetryBase.
	BaseDelay time.Duration
	// MaxDelay bounds each delay; 0 means defaultRetryMax.
	MaxDelay time.Duration
	// Jitter is the fraction of each delay, from 0 to 1, that is reduced at random.
	Jitter float64
	// Codes lists the codes to retry; nil means UpstreamTimeout and UpstreamUnavailable.
	Codes []result.Code
	// Random returns a number in [0, 1). Nil means math/rand.
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

// delay returns the delay after n failed attempts.
func (p RetryPolicy) delay(n int) time.Duration {
	d := p.MaxDelay
	if shift := n - 1; shift < 32 && p.BaseDelay <= p.MaxDelay>>shift {
		d = p.BaseDelay << shift
	}
	return d - time.Duration(p.Jitter*p.Random()*float64(d))
}

// retries reports whether err is a transport failure that the policy retries. An upstream's own
// error is never retried, because the upstream has received the call; neither is an error that a
// retry cannot change.
func (p RetryPolicy) retries(err error) bool {
	var e *result.Error
	var answered *jsonrpc.Error
	return errors.As(err, &e) && slices.Contains(p.Codes, e.Code) && !errors.As(err, &answered) && !errors.Is(err, mcp.ErrFinal)
}

// wait returns the delay after n failed attempts, the last with err. If the server asks for a
// longer delay, it gets it within MaxDelay. Beyond MaxDelay, ok is false: an earlier retry would
// only add to the server's load.
func (p RetryPolicy) wait(n int, err error) (d time.Duration, ok bool) {
	asked := mcp.RetryAfter(err)
	return max(p.delay(n), asked), asked <= p.MaxDelay
}

// Sender returns a Sender that repeats the failed calls of s; s itself if the policy makes every call once.
// Results with isError are results and are not repeated.
func (p RetryPolicy) Sender(s Sender) Sender {
	if p.MaxAttempts < 2 {
		return s
	}
	p = p.withDefaults()
	return Sender{Names: append([]string{"retry"}, s.Names...), Send: func(ctx context.Context, c *Call) (json.RawMessage, error) {
		for n := 1; ; n++ {
			result, err := s.Send(ctx, c)
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
				return nil, err // the failure says more than the end of waiting
			}
		}
	}}
}
