package tables

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Store keeps bytes and tables, and the tokens under which tables are fetched once.
// *artifact.Local is one.
type Store interface {
	artifact.Tokens
	Put(ctx context.Context, principal, mediaType, label string, data []byte) (artifact.Artifact, error)
	Open(ctx context.Context, principal, handle string) (*artifact.Lease, error)
	DepositSource(ctx context.Context, principal, label string, from artifact.Source, ttl time.Duration) (artifact.Token, error)
}

var _ Store = (*artifact.Local)(nil)

// Options say which data planes there are, and how they are reached. The zero value
// has no data plane: tool_execute takes abstract_domains in mode sync only, and rows
// of other servers are not fetched. All functions may be called concurrently.
type Options struct {
	// BaseURL returns the URL under which other servers reach the data plane, such
	// as "http://127.0.0.1:8088". Nil is none.
	BaseURL func() (string, error)
	// Detect returns what counts as a table in the results of an upstream in addition
	// to what always does; nil adds nothing.
	Detect func(upstream string) table.DetectOptions
	// Reach returns how other servers reach the data plane of an upstream that has
	// one of its own; nil is ReachDirect for all.
	Reach func(upstream string) Reach
	// Fetches reports whether an upstream can fetch from BaseURL. If it cannot, the
	// rows that its tools need are put into their calls. Nil is true for all.
	Fetches func(upstream string) bool
	// Fetch gets the rows of a resource_url of another server for a $table
	// reference; nil refuses all.
	Fetch plane.Source
	// TTL is how long a resource_url works; 0 is artifact.DefaultTokenTTL.
	TTL time.Duration
}

// Reach is how other servers reach an upstream's own data plane.
type Reach uint8

// The ways to a data plane.
const (
	// ReachDirect: at the resource_url as it is.
	ReachDirect Reach = iota
	// ReachRelay: from this machine only. A resource_url that leads to a loopback
	// address is replaced by one of the gateway, which fetches the rows when a reader
	// asks for them.
	ReachRelay
	// ReachNever: not even from this machine, as with a machine behind NAT. The
	// upstream is asked for mode sync, and the gateway keeps the rows.
	ReachNever
)

// Surroundings are what Tables need of the gateway that they serve. All must be set
// except ReadsMore.
type Surroundings struct {
	Store Store
	// Validate checks arguments against the schema of a tool.
	Validate func(ctx context.Context, e *catalog.Entry, args json.RawMessage) error
	// ArgsError makes the error for arguments of tool_execute that cannot be used.
	ArgsError func(format string, args ...any) error
	// ReadsMore says that the agent has tool_view, with which it reads a result that
	// was kept because it is no table.
	ReadsMore bool
}

// Tables makes the links of the dispatch chain that pass rows from tool to tool. It
// is safe for concurrent use.
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
