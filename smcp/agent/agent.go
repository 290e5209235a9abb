package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Default values of Options.
const (
	defaultTimeout     = 20 * time.Second
	DefaultCallTimeout = 60 * time.Second
	// answerSlack is the extra time for a Computer's own timeout error to arrive.
	answerSlack = 3 * time.Second
	cancelTime  = 5 * time.Second
	maxNotices  = 1024 // queued notifications
)

// Options configure a Client: the hub, the office and the callbacks. Callbacks are called one at a
// time, in order, and may call the Client. A nil callback is skipped.
type Options struct {
	URL    string          // of the hub
	Local  *socketio.Local // a hub in this process, used instead of URL, see hub.Hub.Attach; nil: none
	Office string
	// Namespace is the hub's Socket.IO namespace; "" is smcp.Namespace.
	Namespace string
	// Name is the agent's name. The default is Office, which hubs of 0.1 expect.
	Name    string
	Token   string
	Version string                // a2c_version to announce; "" for none
	Engine  engineio.ClientConfig // transports, TLS, dialing
	Backoff socketio.Backoff      // between attempts to connect

	// Keys are the public keys of Computers by name. Results of a Computer with a key must be signed
	// with it. SetKeys replaces them.
	Keys map[string]ed25519.PublicKey

	Timeout     time.Duration // of requests other than tool calls: 20 s
	CallTimeout time.Duration // of a tool call without a timeout: 60 s

	// OnJoined is called each time the Client enters its office, including after a reconnect.
	OnJoined func()
	OnLost   func(err error)
	// OnEnter and OnLeave are called for each Computer that enters or leaves the office.
	OnEnter func(computer string)
	OnLeave func(computer string)
	// OnTools is called with a Computer's tools when it enters and when they change. If OnTools is
	// nil, the Client does not request them.
	OnTools func(computer string, tools []smcp.Tool)
	// OnUpdate is called when a Computer's tools or configuration may have changed. OnConfig,
	// OnDesktop and OnSkills are called when that part has changed.
	OnUpdate  func(computer string)
	OnConfig  func(computer string)
	OnDesktop func(computer string)
	OnSkills  func(computer string)

	Logger *slog.Logger // nil discards
}

// Client is one Agent. All methods are safe for concurrent use.
type Client struct {
	o      Options
	log    *slog.Logger
	member *member.Member

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	notices chan func()
	dropped atomic.Bool // a notification was dropped because the queue was full
	keys    atomic.Pointer[map[string]ed25519.PublicKey]

	mu        sync.Mutex // guards below
	computers map[string]bool
	channels  map[string]*channel
	closed    bool
}

// New returns a Client that is not connected yet; see Client.Start.
func New(o Options) (*Client, error) {
	if o.Office == "" {
		return nil, errors.New("an agent needs the id of its office")
	}
	if o.Name == "" {
		o.Name = o.Office
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	c := &Client{o: o, log: o.Logger, notices: make(chan func(), maxNotices), computers: map[string]bool{}, channels: map[string]*channel{}}
	c.keys.Store(&o.Keys)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	m, err := member.New(member.Options{
		URL: o.URL, Local: o.Local, Role: smcp.RoleAgent, Name: o.Name, Office: o.Office, Namespace: o.Namespace, Token: o.Token, Version: o.Version, MCP: true,
		Engine: o.Engine, Backoff: o.Backoff, Logger: o.Logger,
		OnJoined: func(context.Context) { c.later(c.joined) },
		OnLost: func(err error) {
			c.dropChannels("", "the connection to the hub was lost")
			c.later(func() { c.lost(err) })
		},
	})
	if err != nil {
		return nil, err
	}
	c.member = m
	m.On(smcp.NotifyEnter, c.on(func(raw json.RawMessage) { c.entered(rawjson.Text(rawjson.Get(raw, "computer"))) }))
	m.On(smcp.NotifyLeave, func(e *socketio.Event) {
		if name := rawjson.Text(rawjson.Get(e.Arg(0), "computer")); name != "" {
			c.dropChannels(name, "the Computer left the office")
			c.later(func() { c.left(name) })
		}
	})
	config := c.about(func(name string) {
		if c.o.OnConfig != nil {
			c.o.OnConfig(name)
		}
		c.updated(name)
	})
	m.On(smcp.NotifyUpdateTools, c.about(c.updated))
	m.On(smcp.NotifyUpdateConfig, config)
	// A hub sends both spellings to a peer without a version; a hub of the first draft sends only the
	// old one. Handling a change twice is harmless.
	m.On(smcp.NotifyUpdateMCPConfig, config)
	m.On(smcp.NotifyUpdateDesktop, c.about(func(name string) {
		if c.o.OnDesktop != nil {
			c.o.OnDesktop(name)
		}
	}))
	m.On(smcp.NotifyUpdateSkills, c.about(func(name string) {
		if c.o.OnSkills != nil {
			c.o.OnSkills(name)
		}
	}))
	m.On(smcp.NotifyMCP, c.message)
	c.wg.Go(c.dispatch)
	return c, nil
}

// Connect calls New and Start.
func Connect(ctx context.Context, o Options) (*Client, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Start connects and joins. Afterwards the Client reconnects on its own.
func (c *Client) Start(ctx context.Context) error { return c.member.Start(ctx) }

// StartInBackground returns at once. The Client connects and joins in the background and retries
// until Close; see Wait.
func (c *Client) StartInBackground() error { return c.member.StartInBackground() }

// Wait waits until the Client is in its office.
func (c *Client) Wait(ctx context.Context) error { return c.member.Wait(ctx) }

// SetKeys replaces Options.Keys for calls and channels that start later. The caller must not change
// the map afterwards.
func (c *Client) SetKeys(keys map[string]ed25519.PublicKey) { c.keys.Store(&keys) }

// key returns the public key of a Computer, or nil.
func (c *Client) key(computer string) ed25519.PublicKey { return (*c.keys.Load())[computer] }

// Status returns the state, the time of its last change, and the last error.
func (c *Client) Status() (member.State, time.Time, error) { return c.member.Status() }

// Office returns the office that the Client is in, or tries to join.
func (c *Client) Office() string { return c.member.Office() }

// Join joins another office. Call Leave first.
func (c *Client) Join(ctx context.Context, office string) error { return c.member.Join(ctx, office) }

// Leave leaves the office.
func (c *Client) Leave(ctx context.Context) error {
	err := c.member.Leave(ctx)
	if err == nil {
		c.dropChannels("", "the agent left the office")
		c.later(func() { c.lost(nil) })
	}
	return err
}

// Close disconnects and waits for running callbacks. Callbacks must not call it.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	err := c.member.Close()
	c.dropChannels("", "the agent was closed")
	c.wg.Wait()
	return err
}

// dispatch runs the callbacks of notifications, one after the other.
func (c *Client) dispatch() {
	for {
		select {
		case f := <-c.notices:
			f()
		case <-c.ctx.Done():
			return
		}
		if len(c.notices) == 0 && c.dropped.Swap(false) {
			c.resync()
		}
	}
}

func (c *Client) later(f func()) {
	select {
	case c.notices <- f:
	case <-c.ctx.Done():
	default:
		if !c.dropped.Swap(true) {
			c.log.Warn("notifications were dropped, and the office will be listed again: the callbacks are too slow", "waiting", maxNotices)
		}
	}
}

// resync lists the office again after notifications were dropped.
func (c *Client) resync() {
	sessions, err := c.ListRoom(c.ctx)
	if err != nil {
		if state, _, _ := c.Status(); state == member.Joined && c.ctx.Err() == nil {
			c.log.Warn("the members of the office cannot be listed; what has changed meanwhile is not known", "err", err)
			c.dropped.Store(true) // the next notification retries
		}
		return // not in the office: the next join lists it
	}
	c.mu.Lock()
	gone := maps.Clone(c.computers)
	c.mu.Unlock()
	for _, s := range sessions {
		if s.Role != smcp.RoleComputer {
			continue
		}
		if known := gone[s.Name]; known {
			delete(gone, s.Name)
			c.updated(s.Name)
		}
		c.entered(s.Name)
	}
	for name := range gone {
		c.left(name)
	}
}

// updated reports a possible change of a Computer's tools.
func (c *Client) updated(name string) {
	if c.o.OnUpdate != nil {
		c.o.OnUpdate(name)
	}
	c.discover(name)
}

func (c *Client) on(f func(json.RawMessage)) socketio.Handler {
	return func(e *socketio.Event) {
		raw := e.Arg(0)
		c.later(func() { f(raw) })
	}
}

// about returns the handler of a notification that names a Computer.
func (c *Client) about(f func(computer string)) socketio.Handler {
	return c.on(func(raw json.RawMessage) {
		if name := rawjson.Text(rawjson.Get(raw, "computer")); name != "" {
			f(name)
		}
	})
}

// joined lists the office after a join.
func (c *Client) joined() {
	if c.o.OnJoined != nil {
		c.o.OnJoined()
	}
	sessions, err := c.ListRoom(c.ctx)
	if err != nil {
		c.log.Warn("the members of the office cannot be listed; Computers are known as they come", "err", err)
		return
	}
	for _, s := range sessions {
		if s.Role == smcp.RoleComputer {
			c.entered(s.Name)
		}
	}
}

func (c *Client) entered(name string) {
	if name == "" {
		return
	}
	c.mu.Lock()
	known := c.computers[name]
	c.computers[name] = true
	c.mu.Unlock()
	if !known && c.o.OnEnter != nil {
		c.o.OnEnter(name)
	}
	if !known {
		c.discover(name)
	}
}

func (c *Client) left(name string) {
	c.mu.Lock()
	known := c.computers[name]
	delete(c.computers, name)
	c.mu.Unlock()
	if known && c.o.OnLeave != nil {
		c.o.OnLeave(name)
	}
}

// lost forgets all Computers, because their changes are unknown until the next join.
func (c *Client) lost(err error) {
	c.mu.Lock()
	names := make([]string, 0, len(c.computers))
	for name := range c.computers {
		names = append(names, name)
	}
	c.mu.Unlock()
	for _, name := range names {
		c.left(name)
	}
	if c.o.OnLost != nil && err != nil {
		c.o.OnLost(err)
	}
}

// discover requests the tools of a Computer.
func (c *Client) discover(name string) {
	if c.o.OnTools == nil {
		return
	}
	tools, err := c.GetTools(c.ctx, name)
	if err != nil {
		if c.ctx.Err() == nil {
			c.log.Warn("a Computer's tools cannot be listed", "computer", name, "err", err)
		}
		return
	}
	c.o.OnTools(name, tools)
}

// NewReqID returns a new request id: a random UUID in 32 hexadecimal digits.
func NewReqID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return hex.EncodeToString(b[:])
}

func (c *Client) base(computer string) smcp.Call {
	return smcp.Call{Agent: c.o.Name, ReqID: NewReqID(), Computer: computer}
}

// ask sends a request and decodes its answer into out.
func (c *Client) ask(ctx context.Context, event string, payload, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	raw, err := c.member.Call(ctx, event, payload)
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s: the answer cannot be read: %w", event, err)
	}
	return nil
}

// ListRoom returns the members of the office.
func (c *Client) ListRoom(ctx context.Context) ([]smcp.Session, error) {
	var room smcp.Room
	err := c.ask(ctx, smcp.EventListRoom, smcp.ListRoom{Agent: c.o.Name, ReqID: NewReqID(), OfficeID: c.Office()}, &room)
	return room.Sessions, err
}

// GetTools returns the tools of a Computer.
func (c *Client) GetTools(ctx context.Context, computer string) ([]smcp.Tool, error) {
	var tools smcp.Tools
	err := c.ask(ctx, smcp.EventGetTools, c.base(computer), &tools)
	return tools.Tools, err
}

// GetConfig returns the configuration of a Computer, without its secrets.
func (c *Client) GetConfig(ctx context.Context, computer string) (smcp.Config, error) {
	var config smcp.Config
	err := c.ask(ctx, smcp.EventGetConfig, c.base(computer), &config)
	return config, err
}

// GetDesktop returns the windows of a Computer. size limits their number unless it is negative.
// window selects one by its URI; "" selects all.
func (c *Client) GetDesktop(ctx context.Context, computer string, size int, window string) ([]string, error) {
	req := smcp.GetDesktop{Call: c.base(computer), Window: window}
	if size >= 0 {
		req.Size = &size
	}
	var desktop smcp.Desktop
	err := c.ask(ctx, smcp.EventGetDesktop, req, &desktop)
	return desktop.Desktops, err
}

// GetResources returns a page of the resources of one MCP server, and the cursor of the next page.
func (c *Client) GetResources(ctx context.Context, computer, server, cursor string) (resources []json.RawMessage, next string, err error) {
	var out smcp.Resources
	err = c.ask(ctx, smcp.EventGetResources, smcp.GetResources{Call: c.base(computer), Server: server, Cursor: cursor}, &out)
	return out.Resources, out.NextCursor, err
}

// GetSkills returns the skills of a Computer.
func (c *Client) GetSkills(ctx context.Context, computer string) ([]smcp.SkillRef, error) {
	var skills smcp.Skills
	err := c.ask(ctx, smcp.EventGetSkills, c.base(computer), &skills)
	return skills.Skills, err
}

// GetSkill returns one file of a skill; path "" is SKILL.md.
func (c *Client) GetSkill(ctx context.Context, computer, name, path string) (smcp.Skill, error) {
	var skill smcp.Skill
	err := c.ask(ctx, smcp.EventGetSkill, smcp.GetSkill{Call: c.base(computer), Name: name, RelPath: path}, &skill)
	return skill, err
}

// ToolCall is a call of a tool.
type ToolCall struct {
	Computer  string
	Tool      string
	Arguments json.RawMessage // nil: none
	Timeout   time.Duration   // 0: Options.CallTimeout
	// ReqID identifies the call. CallTool generates one if it is "".
	ReqID string
	// Traceparent, Tracestate and Baggage are passed on to the MCP server.
	Traceparent, Tracestate, Baggage string
}

// CallTool calls a tool and returns the CallToolResult as the Computer sent it. If ctx ends or the
// timeout passes, CallTool asks the Computer to cancel the call. The error is an *smcp.Error if the
// hub or the Computer refused the call; otherwise it is ctx's error or a signature error.
func (c *Client) CallTool(ctx context.Context, call ToolCall) (json.RawMessage, error) {
	if call.ReqID == "" {
		call.ReqID = NewReqID()
	}
	if call.Timeout <= 0 {
		call.Timeout = c.o.CallTimeout
	}
	if len(call.Arguments) == 0 {
		call.Arguments = json.RawMessage("{}")
	}
	req := smcp.ToolCall{
		Call:     smcp.Call{Agent: c.o.Name, ReqID: call.ReqID, Computer: call.Computer, Traceparent: call.Traceparent, Tracestate: call.Tracestate, Baggage: call.Baggage},
		ToolName: call.Tool, Params: call.Arguments, Timeout: seconds(call.Timeout),
	}
	raw, err := encode(&req)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, call.Timeout+answerSlack)
	defer cancel()
	result, err := c.member.CallRaw(bounded, smcp.EventToolCall, raw)
	if err != nil {
		if bounded.Err() != nil {
			if err := c.Cancel(context.WithoutCancel(ctx), call.ReqID); err != nil {
				c.log.Debug("a call was not cancelled", "req_id", call.ReqID, "err", err)
			}
			if ctx.Err() == nil {
				return nil, fmt.Errorf("computer %q did not answer %s within %s%w", call.Computer, call.Tool, call.Timeout, hidden{context.DeadlineExceeded})
			}
			return nil, ctx.Err()
		}
		return nil, err
	}
	if key := c.key(call.Computer); key != nil {
		if err := a2c.VerifyResult(key, call.Computer, call.Tool, call.ReqID, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// seconds returns d in seconds, rounded up to an integer if d is at least a second: old Computers
// read an integer.
func seconds(d time.Duration) float64 {
	if d < time.Second {
		return d.Seconds()
	}
	return float64((d + time.Second - 1) / time.Second)
}

// Cancel asks the Computers of the office to cancel a call. The call still returns a result, for
// which Cancelled reports true.
func (c *Client) Cancel(ctx context.Context, reqID string) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	_, err := c.member.Call(ctx, smcp.EventCancel, map[string]string{"agent": c.o.Name, "req_id": reqID})
	return err
}

// Cancelled reports whether a result belongs to a cancelled call.
func Cancelled(result json.RawMessage) bool { return flagged(result, smcp.MetaCancelled) }

// TimedOut reports whether a result belongs to a call that timed out.
func TimedOut(result json.RawMessage) bool { return flagged(result, smcp.MetaTimeout) }

func flagged(result json.RawMessage, key string) bool {
	return string(rawjson.GetPath(result, "meta", key)) == "true" || string(rawjson.GetPath(result, "_meta", key)) == "true"
}
