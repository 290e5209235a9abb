package computer

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/smcp"
)

// Default values and bounds.
const (
	defaultCallTimeout = 60 * time.Second
	defaultIdle        = 15 * time.Minute
	maxServers         = 256
	maxCalls           = 256 // in flight
	maxHistory         = 200
	maxHistoryArgs     = 4 << 10 // bytes of one call's arguments
	confirmTime        = 2 * time.Minute
	debounce           = 100 * time.Millisecond
)

// Confirmation describes a call that a person must approve.
type Confirmation struct {
	ReqID, Agent, Server, Tool string
	Arguments                  json.RawMessage
}

// Options configure a Computer. With the zero value, a Computer has no inputs and refuses calls that
// need a confirmation.
type Options struct {
	Name string // of the Computer, unique in its office
	// AutoApply is the rule for tools that the configuration does not mention; "" means ApplyAsk.
	AutoApply Apply
	// Confirm asks a person whether a call may be made. It is needed for tools without auto_apply and
	// is called concurrently. ctx ends when the caller gives up. A nil Confirm refuses the call.
	Confirm func(ctx context.Context, c Confirmation) (bool, error)
	// Ask asks a person for an input without a value; ok false keeps the default. A nil Ask keeps the
	// default.
	Ask func(ctx context.Context, in Input) (value string, ok bool, err error)
	// RunCommand runs the command of an input and returns its output. If it is nil, commands are not
	// run.
	RunCommand func(ctx context.Context, in Input) (string, error)
	// LookupEnv reads the environment; nil means an empty one.
	LookupEnv func(string) (string, bool)
	// BaseEnv is the environment that stdio servers inherit.
	BaseEnv []string
	// Dir is the base of relative paths in the configuration.
	Dir string
	// Key signs results and proves the Computer's name; nil for none.
	Key ed25519.PrivateKey
	// CallTimeout bounds a call without a timeout of its own. The default is 60 s.
	CallTimeout time.Duration
	// IdleTimeout stops programs that were not called for this long. The default is 15 minutes; a
	// negative value never stops them.
	IdleTimeout time.Duration
	// Skills is a folder of skills, each a folder with a SKILL.md; "" for none.
	Skills string
	// Landing is the folder where uploads go; "" refuses them.
	Landing string
	// ClientInfo is the clientInfo that MCP servers receive.
	ClientInfo json.RawMessage
	// StopGrace is how long a program may take to exit after its stdin was closed, and again after
	// SIGTERM. The default is 2 s.
	StopGrace time.Duration
	// Marks are extra environment variables for programs, as "key=value".
	Marks []string
	// Instances are texts that identify this process and its ancestors. A program that prints one of
	// them to stderr would start this process again; the Computer leaves it out.
	Instances []string

	Logger *slog.Logger // nil discards
}

// Computer hosts MCP servers. All methods are safe for concurrent use.
type Computer struct {
	o       Options
	log     *slog.Logger
	manager *upstream.Manager
	trace   *trace.Tracer
	inputs  *inputs
	blobs   *blobs
	uploads *uploads
	skills  skillFolder
	catalog *catalog
	notices notices // of changes, for the office
	office  office
	ledger  ledger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // Add under office.mu, unless closed

	changes sync.Mutex // held while servers change; acquired before all others
}

// New returns a Computer without servers. Close stops it.
func New(o Options) (*Computer, error) {
	if o.Name == "" {
		return nil, errors.New("a Computer needs a name")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdle
	}
	if o.Landing != "" {
		if err := os.MkdirAll(o.Landing, 0o700); err != nil {
			return nil, fmt.Errorf("the folder for uploads: %w", err)
		}
	}
	c := &Computer{o: o, log: o.Logger}
	c.office = office{c: c, channels: map[string]*channel{}}
	c.notices.send = c.office.tell
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.inputs = newInputs(&c.o)
	c.catalog = newCatalog(c.ctx, c.inputs, &c.notices, c.log)
	c.trace = trace.New(trace.Options{
		Version: rawjson.Text(rawjson.Get(o.ClientInfo, "version")), Instance: o.Name, Redact: c.inputs.redact, Logger: o.Logger,
	})
	c.blobs = newBlobs()
	c.uploads = newUploads(o.Landing)
	c.skills = skillFolder{path: o.Skills, blobs: c.blobs, log: o.Logger}
	c.manager = upstream.New(upstream.Options{
		Logger: o.Logger, BaseEnv: o.BaseEnv, Sink: c.catalog, Redact: c.inputs.redact, ClientInfo: o.ClientInfo,
		StopGrace: o.StopGrace, Marks: o.Marks, Instances: o.Instances, Trace: c.trace,
	})
	c.catalog.manager = c.manager
	return c, nil
}

// Name returns the Computer's name.
func (c *Computer) Name() string { return c.o.Name }

// Load replaces the configuration: it starts new servers, stops removed ones and keeps the others
// running. Calls in flight are not blocked.
func (c *Computer) Load(ctx context.Context, f *File) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	c.inputs.define(f.Inputs)
	return errors.Join(c.replace(ctx, f.Servers), sendSpans(c.trace, f.otlp, c.o.LookupEnv))
}

// Put adds a server, or replaces the server of the same name.
func (c *Computer) Put(ctx context.Context, s *Server) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	next := c.Servers()
	if i := slices.IndexFunc(next, func(o *Server) bool { return o.Name == s.Name }); i >= 0 {
		next[i] = s
	} else {
		next = append(next, s)
	}
	return c.replace(ctx, next)
}

// Remove removes a server.
func (c *Computer) Remove(ctx context.Context, name string) error {
	return c.edit(ctx, name, func(*Server) *Server { return nil })
}

// SetDisabled disables or enables a server.
func (c *Computer) SetDisabled(ctx context.Context, name string, disabled bool) error {
	return c.edit(ctx, name, func(s *Server) *Server {
		next := *s
		next.Disabled = disabled
		return &next
	})
}

func (c *Computer) edit(ctx context.Context, name string, f func(*Server) *Server) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	next := c.Servers()
	i := slices.IndexFunc(next, func(s *Server) bool { return s.Name == name })
	if i < 0 {
		return unknownServer(name, next)
	}
	if s := f(next[i]); s != nil {
		next[i] = s
	} else {
		next = slices.Delete(next, i, i+1)
	}
	return c.replace(ctx, next)
}

func unknownServer(name string, all []*Server) error {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("there is no MCP server %q, nor any other", name)
	}
	return fmt.Errorf("there is no MCP server %q; there are %s", name, strings.Join(names, ", "))
}

// SetInput sets the value of an input and restarts the servers that use it. An environment variable
// takes precedence; see InputVariable.
func (c *Computer) SetInput(ctx context.Context, id string, value json.RawMessage) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	if err := c.inputs.set(id, value); err != nil {
		return err
	}
	return c.replace(ctx, c.Servers())
}

// replace sets the list of servers. It leaves out a server whose inputs have no value and keeps the
// others. The caller holds changes.
func (c *Computer) replace(ctx context.Context, servers []*Server) error {
	if err := checkServers(servers); err != nil {
		return err
	}
	applied, failed := map[string]*mcpserver.Server{}, map[string]string{}
	var order []*mcpserver.Server
	var errs []error
	for _, s := range servers {
		if s.Disabled {
			continue
		}
		cfg, err := c.inputs.render(ctx, s)
		if err != nil {
			err = fmt.Errorf("MCP server %q: %w", s.Name, err)
			errs = append(errs, err)
			failed[s.Name] = err.Error()
			continue
		}
		applied[s.Name] = cfg
		order = append(order, cfg)
	}
	if err := c.catalog.set(servers, applied, failed); err != nil {
		return err
	}
	c.office.endChannels(func(of *Server) bool {
		return slices.ContainsFunc(servers, func(s *Server) bool { return reflect.DeepEqual(s, of) && !s.Disabled })
	}, "the MCP server was changed or taken out")
	c.manager.Apply(order)
	c.notices.add(smcp.EventUpdateConfig, smcp.EventUpdateTools)
	return errors.Join(errs...)
}

// Servers returns the configured servers. They must not be changed.
func (c *Computer) Servers() []*Server { return c.catalog.all() }

// Inputs returns the definitions of the inputs.
func (c *Computer) Inputs() []Input { return c.inputs.list() }

// InputVariable returns the environment variable that answers an input and overrides SetInput. ok is
// false if the variable is not set.
func (c *Computer) InputVariable(id string) (name string, ok bool) {
	name, _, ok = c.inputs.variable(id)
	return name, ok
}

// Ready waits until every server has been listed or has failed once.
func (c *Computer) Ready(ctx context.Context) error { return c.manager.Ready(ctx) }

// Health is the state of one MCP server. State is starting, ready, idle, failed, left_out, stopped
// or disabled.
type Health struct {
	Name     string          `json:"name"`
	BundleID string          `json:"bundle_id"`
	Type     string          `json:"type"`
	State    string          `json:"state"`
	Tools    int             `json:"tools"`
	Calls    int64           `json:"calls"`
	Errors   int64           `json:"errors"`
	Restarts int64           `json:"restarts"`
	Pid      int             `json:"pid,omitempty"`
	Since    time.Time       `json:"since,omitzero"`
	Error    string          `json:"error,omitempty"`
	Version  json.RawMessage `json:"server_info,omitempty"`
}

// Health returns the state of every server, in order.
func (c *Computer) Health() []Health {
	states := map[string]upstream.Status{}
	for _, s := range c.manager.Status() {
		states[s.Name] = s
	}
	return c.catalog.health(states)
}

// Close leaves the hub, stops the servers and waits until everything has ended. Programs may take as
// long as ctx allows.
func (c *Computer) Close(ctx context.Context) error {
	wait := c.catalog.close()
	c.cancel()
	c.notices.close()
	c.office.close()
	err := c.manager.Close(ctx)
	wait()
	c.wg.Wait()
	c.trace.Close(ctx)
	c.uploads.close()
	return err
}
