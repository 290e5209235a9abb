package tables

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Store keeps bytes and tables, and the tokens for fetching a table once. *artifact.Local
// implements it.
type Store interface {
	artifact.Tokens
	At(place string) artifact.Place // a profile, or "" for none
	DepositSource(ctx context.Context, principal, label string, from artifact.Source, ttl time.Duration) (artifact.Token, error)
}

var _ Store = (*artifact.Local)(nil)

// Options describe the data planes and how they are reached. With the zero value there is no data
// plane: tool_execute accepts abstract_domains in mode sync only, and rows of other servers are not
// fetched. All functions may be called concurrently.
type Options struct {
	// BaseURL returns the URL under which other servers reach the data plane, such
	// as "http://127.0.0.1:8088". Nil is none.
	BaseURL func() (string, error)
	// Detect returns additional options for detecting tables in the results of an upstream; nil
	// adds none.
	Detect func(upstream string) table.DetectOptions
	// Reach returns how other servers reach the data plane of an upstream; nil means ReachDirect
	// for all.
	Reach func(upstream string) Reach
	// Fetches reports whether an upstream can fetch from BaseURL. If it cannot, the rows that its
	// tools need are added to their calls. Nil means true for all.
	Fetches func(upstream string) bool
	// Fetch fetches the rows of another server's resource_url for a $table reference; nil refuses
	// all.
	Fetch plane.Source
	// Refusals knows why the data plane refused fetches; nil: errors of consumers stay as they are.
	Refusals *Refusals
	// TTL is how long a resource_url works; 0 is artifact.DefaultTokenTTL.
	TTL time.Duration
}

// Reach is how other servers reach an upstream's own data plane.
type Reach uint8

// Values of Reach.
const (
	// ReachDirect uses the resource_url as it is.
	ReachDirect Reach = iota
	// ReachRelay is for upstreams that only this machine reaches. A resource_url with a loopback
	// address is replaced by one of the gateway, which fetches the rows when a reader requests
	// them.
	ReachRelay
	// ReachNever is for upstreams that not even this machine reaches, such as one behind NAT. The
	// upstream is called in mode sync, and the gateway stores the rows.
	ReachNever
	// ReachKeep is for upstreams that only this machine reaches as well. The upstream is called in
	// mode sync as with ReachNever: a plane that loses rows which its JSON writer refuses, such as
	// NaN and timestamps, is not asked for them. A resource_url that comes in spite of it is
	// replaced as with ReachRelay.
	ReachKeep
)

// Local reports whether this machine reaches the upstream on its loopback.
func (r Reach) Local() bool { return r == ReachRelay || r == ReachKeep }

// keeps reports whether the upstream is called in mode sync, and the gateway stores the rows.
func (r Reach) keeps() bool { return r == ReachNever || r == ReachKeep }

// Surroundings are the functions of the gateway that Tables use. All except ReadsMore and Turns must be set.
type Surroundings struct {
	Store Store
	// Validate checks arguments against the schema of a tool.
	Validate func(ctx context.Context, e *catalog.Entry, args json.RawMessage) error
	// ArgsError returns the error for invalid arguments of tool_execute.
	ArgsError func(format string, args ...any) error
	// ReadsMore means that the agent has tool_view and can read a stored result.
	ReadsMore bool
	// Turns, if set, is where queries that compute much wait for each other.
	Turns *work.Turns
}

// Tables provides the steps of a call that pass rows between tools. It is safe for concurrent use.
type Tables struct {
	Surroundings
	opts Options
}

// New returns Tables.
func New(around Surroundings, opts Options) *Tables { return &Tables{around, opts} }

func (t *Tables) reach(upstream string) Reach {
	if t.opts.Reach == nil {
		return ReachDirect
	}
	return t.opts.Reach(upstream)
}

func (t *Tables) detect(upstream string) table.DetectOptions {
	if t.opts.Detect == nil {
		return table.DetectOptions{}
	}
	return t.opts.Detect(upstream)
}

var errNoPlane = errors.New("this gateway has no address under which other servers can fetch; use mode sync, or run it with weir serve")

// base returns the URL of the data plane.
func (t *Tables) base() (string, error) {
	if t.opts.BaseURL == nil {
		return "", errNoPlane
	}
	return t.opts.BaseURL()
}
