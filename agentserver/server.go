package agentserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/internal/protocol/listchange"
	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Options configures a Server. The zero value is an agent without tools; zero values mean the
// defaults given below.
type Options struct {
	// Name is the agent's name, as in /mcps/{name}/mcp. The default is the name in the
	// configuration, or "agent". Version is the agent's version; the default is "0".
	Name, Version string
	// Config is the path of a configuration file, read again when it changes;
	// "" for none. ConfigOptions are for reading it.
	Config        string
	ConfigOptions ConfigOptions
	// Tools, Resources and Prompts are offered in addition to the ones in the file.
	Tools     []Tool
	Resources []Resource
	Prompts   []Prompt

	// Addr is where Run listens: by default 127.0.0.1 and the port of the configuration, or 7000.
	Addr string
	// Concurrency is how many tool calls run at once; the default is the value in the
	// configuration, or 1. QueueMax is how many may wait; likewise, or 1,024.
	Concurrency, QueueMax int
	// Timeout bounds one execution, from its start; the default is the value in the configuration,
	// or 30 seconds.
	Timeout time.Duration
	// Store keeps tasks: "memory" or "file:FOLDER". The default is the value in the configuration,
	// or memory.
	Store string
	// Connect opens the NATS server of a configuration with queue.group, which this package does not
	// link. The weir agent command sets it. Other programs leave it nil, which refuses such a
	// configuration. docs has the tasks that replicas share; closing ends the connection.
	Connect func(QueueConfig) (docs any, closing func(), err error)
	// MaxBody bounds a request, in bytes; the default is the value in the configuration, or 10 MB.
	MaxBody int64

	// Authenticate returns the principal of a bearer token; nil admits all requests as one
	// principal. AllowedHosts and AllowedOrigins are admitted in the headers Host and Origin. The
	// names of this machine always are.
	Authenticate                 func(bearer string) (principal string, ok bool)
	AllowedHosts, AllowedOrigins []string
	// InvocationKey refuses requests without a token of the agent's router, signed with this key: the
	// router's agents.invocation.secret as []byte, or its ed25519.PublicKey. Nil requires no token. It
	// replaces Authenticate, and the principal is the token's.
	InvocationKey any

	// Router is the base URL of the router to register with, "" for none. RouterToken authenticates
	// the agent there. Advertise is the URL under which the router reaches this agent; if it is
	// empty, the router uses the address that it sees and Addr's port.
	Router, RouterToken, Advertise string

	// ShutdownGrace is how long running calls may continue when the agent ends: 10 seconds.
	ShutdownGrace time.Duration
	// Ready is called by Run when it listens, with the address. May be nil.
	Ready func(addr net.Addr)
	// Logger gets failures, and notes about the configuration; nil discards them.
	Logger *slog.Logger
}

// Server is an agent: an MCP server with additional HTTP routes. It is safe for concurrent use.
// Close ends it.
type Server struct {
	o        Options
	log      *slog.Logger
	name     string
	info     json.RawMessage // serverInfo
	offer    atomic.Pointer[offer]
	queue    *queue.Queue  // of tool calls
	reads    *queue.Places // for resources and prompts
	life     *mcp.Lifecycle
	http     *streamable.Server
	started  time.Time
	closing  atomic.Bool
	turns    *work.Turns                            // for arguments that are expensive to check
	required *invocation.Verifier                   // by which all requests need a token; may be nil
	router   atomic.Pointer[[]*invocation.Verifier] // of the router it has registered with, one for each secret; may be nil
	changes  *listchange.Notifier
	reloads  sync.Mutex   // held while the configuration is read
	children child.Keeper // of the commands
	watched  []string     // folders of the configuration; guarded by reloads
}

// maxReads is how many resources and prompts run at once, regardless of Concurrency.
const maxReads = 4

// minCalls is the smallest bound of one principal's requests in flight. It leaves room for a queue
// that a reload makes longer.
const minCalls = 16 << 10

// New makes an agent and resumes the tasks of its store. The error lists all faults of the
// configuration.
func New(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, log: o.Logger, started: time.Now(), turns: work.NewTurns(0)}
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	first := func(values ...int) int {
		for _, v := range values {
			if v > 0 {
				return v
			}
		}
		return 0
	}
	s.name = o.Name
	if s.name == "" {
		s.name = c.Name
	}
	if s.name == "" {
		s.name = "agent"
	}
	if !validName(s.name) {
		return nil, fmt.Errorf("the agent's name %q must be 1 to 128 letters, digits, - _ or .: it stands in the URL /mcps/{name}/mcp", clip(s.name))
	}
	if o.InvocationKey != nil {
		if s.required, err = invocation.NewVerifier(s.name, o.InvocationKey); err != nil {
			return nil, fmt.Errorf("the key of the router's invocation tokens: %w", err)
		}
	}
	version := o.Version
	if version == "" {
		version = c.Version
	}
	if version == "" {
		version = "0"
	}
	if s.o.Timeout == 0 {
		s.o.Timeout = c.Timeout
	}
	if s.o.Timeout == 0 {
		s.o.Timeout = 30 * time.Second
	}
	if s.o.MaxBody == 0 {
		s.o.MaxBody = c.MaxBody
	}
	if s.o.Addr == "" && c.Port > 0 {
		s.o.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port))
	}
	if s.o.ShutdownGrace == 0 {
		s.o.ShutdownGrace = 10 * time.Second
	}
	if s.info, err = marshal(map[string]string{"name": s.name, "version": version}); err != nil {
		return nil, err
	}
	places := queue.PlaceOptions{
		Run: s.execute, Timeout: s.o.Timeout, Logger: s.log, LogBytes: c.Queue.LogBytes,
		Concurrency: first(o.Concurrency, c.Concurrency), Max: first(o.QueueMax, c.Queue.Max),
	}
	s.reads = queue.NewPlaces(queue.PlaceOptions{
		Concurrency: max(maxReads, places.Concurrency), Max: places.Max, Timeout: s.o.Timeout, Logger: s.log,
		Run: func(ctx context.Context, job *queue.Job) (json.RawMessage, error) {
			return nil, job.Value.(func(context.Context, *queue.Job) error)(ctx, job)
		},
	})
	if s.queue, err = s.openQueue(c, places); err != nil {
		return nil, err
	}
	s.changes = listchange.New()
	s.life = &mcp.Lifecycle{
		ServerInfo: s.info, Instructions: c.Instructions, Capabilities: capabilities,
		Next: &mcp.Mux{Methods: s.methods()},
	}
	s.http = streamable.NewServer(streamable.ServerOptions{
		Handler: s, Name: fmt.Sprintf("the agent %q", s.name), Sessionless: true, MaxBody: s.o.MaxBody, Logger: s.log,
		// The queues should refuse first, because their errors say more.
		MaxPrincipalCalls: max(minCalls, 2*s.queue.Status().Max+minCalls/2),
	})
	return s, nil
}

// load reads the configuration and makes the offer of it.
func (s *Server) load() (*Config, error) {
	c := &Config{}
	if s.o.Config != "" {
		var err error
		if c, err = LoadConfig(s.o.Config, s.o.ConfigOptions); err != nil {
			return nil, err
		}
	}
	tools := append(append([]Tool(nil), s.o.Tools...), c.Tools...)
	resources := append(append([]Resource(nil), s.o.Resources...), c.Resources...)
	prompts := append(append([]Prompt(nil), s.o.Prompts...), c.Prompts...)
	offer, err := newOffer(tools, resources, prompts)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	for _, note := range c.Notes {
		s.log.Info(note)
	}
	for _, warning := range c.Warnings {
		s.log.Warn(warning)
	}
	for _, t := range c.Tools {
		if cmd, ok := t.run.(*command); ok {
			if _, err := cmd.find(); err != nil {
				s.log.Warn("a tool's command is not there; calls of it will fail", "tool", t.Name, "from", t.source, "err", err)
			}
		}
	}
	s.offer.Store(offer)
	s.watched = c.Skills
	if s.o.Config != "" {
		s.watched = append([]string{filepath.Dir(s.o.Config)}, s.watched...)
	}
	return c, nil
}

// Reload reads the configuration again. If it is invalid, the agent keeps the old one. Running
// calls are not disturbed. Changes of name, port, store, timeout and the bound on requests take
// effect with the next start.
func (s *Server) Reload() error {
	s.reloads.Lock()
	defer s.reloads.Unlock()
	before := s.offer.Load()
	c, err := s.load()
	if err != nil {
		return err
	}
	if s.o.Concurrency == 0 || s.o.QueueMax == 0 {
		concurrency, max := c.Concurrency, c.Queue.Max
		if s.o.Concurrency > 0 {
			concurrency = 0
		}
		if s.o.QueueMax > 0 {
			max = 0
		}
		s.queue.Resize(concurrency, max)
	}
	s.changes.Tell(s.offer.Load().changed(before)...)
	return nil
}

// openQueue opens the queue with the tasks of its store.
func (s *Server) openQueue(c *Config, places queue.PlaceOptions) (*queue.Queue, error) {
	o := queue.Options{PlaceOptions: places, RetainCount: c.Queue.RetainCount, RetainBytes: c.Queue.RetainBytes, RetainAge: c.Queue.RetainAge}
	if s.o.Store == "" {
		o.Group = c.Queue.Group
	}
	var err error
	if o.Docs, o.Close, err = s.openStore(c.Queue, o.Group); err != nil {
		return nil, err
	}
	q, err := queue.New(o)
	if err != nil {
		o.Close()
	}
	return q, err
}

// openStore opens the store of tasks, and returns what closes it.
func (s *Server) openStore(c QueueConfig, group string) (store.Docs, func(), error) {
	if group != "" {
		if s.o.Connect == nil {
			return nil, nil, fmt.Errorf("queue.group %q needs Options.Connect; weir agent has it", group)
		}
		opened, closing, err := s.o.Connect(c)
		if err != nil {
			return nil, nil, fmt.Errorf("queue.store: %w", err)
		}
		docs, ok := opened.(store.Docs)
		if !ok {
			closing()
			return nil, nil, fmt.Errorf("queue.group %q: Options.Connect opened a %T, which cannot share tasks", group, opened)
		}
		return docs, closing, nil
	}
	where := cmp.Or(s.o.Store, c.Store)
	folder, ok := strings.CutPrefix(where, "file:")
	switch {
	case where == "" || where == "memory":
		return queue.OpenMemory(), func() {}, nil
	case ok && folder != "":
		f, err := queue.OpenFile(folder, s.log)
		if err != nil {
			return nil, nil, err
		}
		return f, f.Close, nil
	}
	return nil, nil, fmt.Errorf(`the task store must be "memory" or "file:FOLDER", not %q`, clip(where))
}

// Name returns the agent's name.
func (s *Server) Name() string { return s.name }

// Status returns the queue of tool calls in numbers.
func (s *Server) Status() queue.Status { return s.queue.Status() }

// methods returns the handlers of all methods outside the lifecycle.
func (s *Server) methods() map[string]mcp.Handler {
	list := func(pick func(o *offer, r *mcp.Request) json.RawMessage) mcp.Handler {
		return mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			if rawjson.Text(rawjson.Get(r.Params, "cursor")) != "" {
				return nil, mcp.Errorf(mcp.KindInvalidParams, "no such cursor: the list has one page")
			}
			return s.cacheable(r, pick(s.offer.Load(), r)), nil
		})
	}
	methods := map[string]mcp.Handler{
		"tools/list": list(func(o *offer, r *mcp.Request) json.RawMessage {
			if hasLegacyTasks(r) {
				return o.toolListTasks
			}
			return o.toolList
		}),
		"resources/list":           list(func(o *offer, _ *mcp.Request) json.RawMessage { return o.resourceList }),
		"resources/templates/list": list(func(o *offer, _ *mcp.Request) json.RawMessage { return o.templateList }),
		"prompts/list":             list(func(o *offer, _ *mcp.Request) json.RawMessage { return o.promptList }),
		"tools/call":               mcp.HandlerFunc(s.callTool),
		"resources/read":           mcp.HandlerFunc(s.readResource),
		"prompts/get":              mcp.HandlerFunc(s.getPrompt),
		"subscriptions/listen":     mcp.HandlerFunc(s.changes.Listen),
	}
	maps.Copy(methods, tasks{s.queue}.methods())
	return methods
}

// capabilities returns the capabilities for the version of r.
func capabilities(r *mcp.Request) json.RawMessage {
	lists := `{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true}`
	switch {
	case r.Modern():
		lists += `,"extensions":{"` + tasksExtension + `":{}}`
	case hasLegacyTasks(r):
		lists += `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	}
	return json.RawMessage(lists + `}`)
}

// Serve implements mcp.Handler: the agent over any transport.
func (s *Server) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Method == "notifications/initialized" {
		s.changes.Add(r.Session)
	}
	result, err := s.life.Serve(ctx, r)
	if err != nil && isSessionless(ctx, r) {
		if k, ours := mcp.KindOf(err); ours && k != mcp.KindInternal && k != mcp.KindCancelled {
			err = mcp.SessionlessError(err)
		}
	}
	return result, err
}

// isSessionless reports whether a request came without session and version, as from the first
// clients of agent servers.
func isSessionless(ctx context.Context, r *mcp.Request) bool {
	h := streamable.Header(ctx)
	return h != nil && !r.Modern() && h.Get(streamable.HeaderSession) == "" && h.Get(streamable.HeaderVersion) == ""
}

// cacheable adds how long a list or resource may be kept (2026-07-28).
func (s *Server) cacheable(r *mcp.Request, result json.RawMessage) json.RawMessage {
	if !r.Modern() {
		return result
	}
	return mcp.Cacheable(result, 0, "private")
}

// queueError returns the error for a call without a result of its queue.
func (s *Server) queueError(name string, err error) error {
	var full *queue.FullError
	var timeout *queue.TimeoutError
	withData := func(e *mcp.Error, data map[string]any) error {
		data["kind"] = e.Kind.String()
		e.Data, _ = json.Marshal(data)
		return e
	}
	switch {
	case errors.As(err, &full):
		return withData(mcp.Errorf(mcp.KindQueueFull, "QueueFull: %d calls wait already, which is the limit of the agent %q; try again later", full.Status.Queued, s.name),
			map[string]any{"limit": full.Status.Max, "queued": full.Status.Queued, "running": full.Status.Running, "concurrency": full.Status.Concurrency})
	case errors.As(err, &timeout):
		return withData(mcp.Errorf(mcp.KindTimeout, "%s %v, its limit on the agent %q", name, err, s.name), map[string]any{"timeoutMs": timeout.Limit.Milliseconds()})
	case errors.Is(err, queue.ErrClosed), errors.Is(err, queue.ErrInterrupted):
		return &mcp.Error{Kind: mcp.KindShuttingDown, Message: fmt.Sprintf("the agent %q is shutting down; try again when it is back", s.name), Err: err}
	case errors.Is(err, queue.ErrStore):
		return &mcp.Error{Kind: mcp.KindStoreUnavailable, Message: fmt.Sprintf("the store of the agent %q did not take the task; try again", s.name), Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, queue.ErrCancelled):
		return &mcp.Error{Kind: mcp.KindCancelled, Message: "the call was cancelled", Err: err}
	}
	var e *mcp.Error
	if errors.As(err, &e) {
		return e
	}
	return &mcp.Error{Kind: mcp.KindToolExecution, Message: fmt.Sprintf("%s failed: %v", name, err), Err: err}
}

// Close ends the agent: it refuses new requests, and running calls may finish until ctx ends.
// Waiting tasks stay in a store on disk.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Store(true)
	err := s.http.Shutdown(ctx)
	err = errors.Join(err, s.queue.Close(ctx), s.reads.Close(ctx))
	s.changes.Close()
	s.children.Close()
	return err
}

var _ mcp.Handler = (*Server)(nil)
