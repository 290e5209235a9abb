package metatool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/policy/hook"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/search/feedback"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// Upstreams gives a Gateway access to its servers. Both methods are called concurrently.
type Upstreams interface {
	// Peer returns the connection to an upstream by its configured name. It wakes the upstream if
	// necessary. Calls run on behalf of the session in mcp.Caller(ctx). An *mcp.Error is best,
	// because its kind determines the code that the agent sees.
	Peer(ctx context.Context, upstream string) (mcp.Peer, error)
	// Snapshot returns the current snapshot. It never returns nil, and a returned snapshot never
	// changes.
	Snapshot() *Snapshot
}

// Options configure a Gateway. Upstreams and Artifacts must be set.
type Options struct {
	Upstreams Upstreams
	Artifacts tables.Store
	// Own gives servers' lists for single principals; nil says that all servers list the same for all.
	Own OwnLists
	// Await waits, within a bound, for servers that start with the gateway and have not listed yet. Requests have
	// waited before they come here; programs wait when they look for a tool. nil: there are no such servers.
	Await func(ctx context.Context)
	// Tables configures the data planes that rows pass between.
	Tables tables.Options

	// Mode is the mode for agents that ask for none; see WithMode.
	Mode Mode
	// AutoTokens is the number of tokens below which all definitions together make ModeAuto plain; 0 is
	// defaultAutoTokens.
	AutoTokens int
	// ProxyFirewall applies the firewall to results in proxy mode as well, and lists tool_view
	// there.
	ProxyFirewall bool
	// Names selects the form of tool ids in the tools/list of proxy mode.
	Names NameForm
	// Strict gives the letter of the published text where the gateway departs from it by default
	// (spec/gateway §7): proxy mode calls tools only with tool_execute, and every part of a resource
	// or prompt is kept.
	Strict bool
	// ExposeHydrate lists tool_hydrate in gateway mode.
	ExposeHydrate bool

	Firewall result.Firewall
	// Format applies to requests that ask for none. FormatDefault means FormatText.
	Format result.Format
	// MaxViewChars bounds the characters of one tool_view; 0 means the default of package result.
	MaxViewChars int

	// TolerantArgs repairs arguments before they are validated; see dispatch.Normalise.
	TolerantArgs bool
	// Policy decides which calls are allowed, and which entries exist for a caller; nil allows all.
	Policy *dispatch.Policy
	// Profiles are the parts of the catalog that are served at URLs of their own. A request
	// names its profile in its identity.Route.
	Profiles []Profile
	// Operators are asked about calls whose client cannot be asked; see dispatch.Operators.
	Operators dispatch.Operators
	// RateLimits are the quotas of each session.
	RateLimits dispatch.RateLimits
	// Cache configures the cache for results of read-only tools.
	Cache dispatch.CacheOptions
	// Retry configures the repetition of calls whose transport failed.
	Retry dispatch.RetryPolicy
	// CacheStable makes tool_browse return cards that a session has seen first, with the same bytes
	// (spec/gateway §5).
	CacheStable bool
	// Tasks bounds the waiting for calls that servers answer with a task.
	Tasks tasks.Options
	// CallTimeout returns the time limit of a call to an upstream; 0 means none. The validation of
	// its arguments has the same limit. CallTimeout may be nil.
	CallTimeout func(upstream string) time.Duration
	// Caller returns the context with the caller as it is now, or an error if the credential of the
	// request does not admit it any more; see dispatch.Present. Nil says that callers do not change.
	Caller func(ctx context.Context) (context.Context, error)
	// Configured returns the configuration of a server, nil if it is not known; see dispatch.Present.
	// Nil says that servers do not change.
	Configured func(upstream string) any
	// CheckHeaders compares the HTTP headers of a modern request that calls a tool by its name with its
	// arguments, as the schema that tools/list shows wants it. Nil compares nothing.
	CheckHeaders func(ctx context.Context, inputSchema, params json.RawMessage) error
	// Turns limits how many expensive validations and views run at a time. Nil means a limit only
	// for this gateway.
	Turns *work.Turns
	// State is the data that survives this gateway; nil means a new State.
	State *State
	// Redactor removes secrets from errors, from descriptions of results and from the log. Nil
	// knows no configured secrets.
	Redactor *result.Redactor
	// Screen treats text in answers of servers that people do not see. It runs before everything else
	// that reads an answer.
	Screen result.Screen
	// Leaks finds secrets that no server may get in arguments; nil lets all pass.
	Leaks *redact.Finder
	// Hooks are asked about calls and results; nil asks none.
	Hooks *hook.Set
	// Flow labels results, and decides by what a model has read; nil has no labels.
	Flow *flow.Flow
	// RedactResults also replaces the Redactor's secrets in results and in the definitions that
	// meta-tools show.
	RedactResults bool
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// LogUnredacted logs the causes of errors in full, including secrets.
	LogUnredacted bool
	// Pin is the catalog that the operator has approved; the zero value pins none.
	Pin dispatch.Pin
	// Audit records calls in the audit log; nil records none.
	Audit *calls.Recorder
	// Learned has the tools that callers ran after their searches. Nil learns nothing.
	Learned *feedback.Memory
	// Programs runs the programs of tool_run; nil runs none, and tool_run does not exist.
	Programs *runs.Runner
	// OnEvent is called for each event. It may be nil. It may be called concurrently and by the
	// goroutine that serves a request, so it must not block.
	OnEvent func(Event)
	// Memory has the bytes that calls and views make on behalf of their principals; nil sets no bound.
	Memory *memory.Pool
	// Capture gives events the arguments and the result of their call; nil gives none.
	Capture Capture
}

// A Capture keeps the arguments and the result of a call, which may be nil. It must not change or keep
// them, and may be called concurrently.
type Capture func(arguments, result json.RawMessage) *telemetry.Exchange

// Gateway serves tools/list and tools/call of /mcp. Wrap it in an mcp.Lifecycle. It is safe for
// concurrent use and starts no goroutines; its State does.
type Gateway struct {
	opts     Options
	state    *State
	ctl      *dispatch.Controls
	check    dispatch.Checker
	caller   caller
	faces    *faces
	outages  outages
	accounts *accounts
	natives  *natives
	direct   *DirectCalls

	whole   Upstreams       // what the controls look at; opts.Upstreams may be a part of it
	kept    *dispatch.Cache // of results; nil: there is none
	classes *classes        // the parts that callers see; nil: all callers see all that there is
	// composer makes the wholes of callers with lists of their own; nil: there are none
	composer *composer
}

// defaultAutoTokens is the default of Options.AutoTokens.
const defaultAutoTokens = 3000

var _ mcp.Handler = (*Gateway)(nil)

// New returns a Gateway.
func New(opts Options) *Gateway {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Format == result.FormatDefault {
		opts.Format = result.FormatText
	}
	if opts.Firewall.CountTokens == nil {
		opts.Firewall.CountTokens = token.Count
	}
	if opts.AutoTokens == 0 {
		opts.AutoTokens = defaultAutoTokens
	}
	if opts.Turns == nil {
		opts.Turns = work.NewTurns(0)
	}
	if opts.State == nil {
		opts.State = NewState()
	}
	if opts.Await == nil {
		opts.Await = func(context.Context) {}
	}
	if opts.Firewall.Redact == nil {
		redactor := opts.Redactor
		opts.Firewall.Redact = func(text string) string { return redactor.Text(visible.Text(text)) }
	}
	ctl := dispatch.NewControls(opts.Pin, opts.Policy, opts.RateLimits, opts.Redactor, opts.State.started, opts.Logger)
	ctl.Leaks, ctl.Hooks, ctl.Flow = opts.Leaks, opts.Hooks, opts.Flow
	ctl.SetOperators(opts.Operators)
	ctl.SetPresent(opts.State.present(&opts))
	g := newFaces(opts, opts.Upstreams, ctl, newCache(&opts))
	g.direct = &DirectCalls{whole: g.wholeOf, await: g.awaitServers, state: g.state, ctl: ctl, accounts: g.accounts, wholeNow: opts.State.whole}
	g.composer = newComposer(opts.Own, opts.Upstreams)
	g.classes = newClasses(g)
	g.state.front.Store(g)
	return g
}

// newFaces returns a Gateway whose agents find what is in opts.Upstreams. The controls look at all of
// whole, of which opts.Upstreams is a part. Options have their defaults.
func newFaces(opts Options, whole Upstreams, ctl *dispatch.Controls, kept *dispatch.Cache) *Gateway {
	g := &Gateway{
		opts: opts, state: opts.State, ctl: ctl, whole: whole, kept: kept,
		check:  dispatch.Checker{Turns: opts.Turns, Timeout: opts.CallTimeout},
		caller: caller{upstreams: opts.Upstreams, state: opts.State, redactor: opts.Redactor, redact: opts.RedactResults, screen: opts.Screen, logger: opts.Logger, flow: opts.Flow},
	}
	if g.caller.taskTTL = opts.Tasks.TTL; g.caller.taskTTL <= 0 {
		g.caller.taskTTL = tasks.DefaultTTL
	}
	g.outages = outages{opts.Upstreams, opts.Redactor, opts.Firewall.CountTokens}
	g.faces = &faces{upstreams: opts.Upstreams, mode: opts.Mode, limit: opts.AutoTokens}
	g.accounts = &accounts{state: g.state, faces: g.faces, countTokens: opts.Firewall.CountTokens, onEvent: opts.OnEvent, capture: opts.Capture, audit: auditing{to: opts.Audit, flow: opts.Flow}}
	for mode := range g.faces.of {
		g.faces.of[mode] = g.face(Mode(mode), kept)
	}
	g.natives = &natives{
		caller: &g.caller, ctl: g.ctl, accounts: g.accounts, subjects: subjectsIn(whole),
		followers: &followers{state: g.state, faces: g.faces, logger: opts.Logger},
	}
	return g
}

// subjectsIn returns a function that finds, in the newest catalog, the entries that a call may
// concern.
func subjectsIn(u Upstreams) dispatch.SubjectsOf {
	return func(e *catalog.Entry, uri string) (*catalog.Catalog, []dispatch.Subject) {
		s := u.Snapshot()
		return s.Catalog, s.about(e, uri)
	}
}

// face makes the face of one mode. Each of its tools is a Pipeline.
func (g *Gateway) face(mode Mode, kept *dispatch.Cache) *face {
	holdsBack := mode != ModeProxy || g.opts.ProxyFirewall
	lists := &listing{upstreams: g.opts.Upstreams, mode: mode, names: g.opts.Names, given: &g.state.names}
	if g.opts.RedactResults {
		lists.redact = g.opts.Redactor.Results
	}
	find := &finder{upstreams: g.opts.Upstreams, lists: lists, outages: g.outages, store: g.opts.Artifacts, links: g.state.links, stable: g.opts.CacheStable}
	shape := &shaping{firewall: g.opts.Firewall, store: g.opts.Artifacts, links: g.state.links, detect: g.opts.Tables.Detect, flow: g.opts.Flow, holdsBack: holdsBack, keepsReads: g.opts.Strict}
	work := newTaskCalls(g, holdsBack, shape)
	send := g.opts.Retry.Sender(dispatch.Sender{Names: []string{"send"}, Send: g.caller.call})
	call := append(g.callSteps(holdsBack, kept, work), shape.tools())
	var programs *programs
	if runner := g.opts.Programs; runner != nil && (mode == ModeGateway || runner.SavedAt != "") {
		programs = g.programs(find, shape, kept)
		send, call = programs.saves(send), append(programs.starts(), call...)
	}
	tools := map[string]*dispatch.Pipeline{}
	add := func(name string, to dispatch.Sender, steps ...dispatch.Step) {
		tools[name] = dispatch.New(to, slices.Concat([]dispatch.Step{g.accounts.step()}, dispatch.Shows(g.opts.Flow), []dispatch.Step{g.answer(), fitting()}, steps)...)
	}
	if mode == ModeGateway { // the others have no search
		call = append(g.learns(), call...)
	}
	if mode != ModePlain {
		add(ToolExecute, send, slices.Concat(call, []dispatch.Step{work.handles(), find.step(find.execute)})...)
	}
	if mode == ModeGateway {
		browse := dispatch.Sender{Names: []string{"browse"}, Send: g.browse}
		for _, name := range []string{ToolBrowse, ResourceBrowse, PromptBrowse} {
			add(name, browse, g.admit())
		}
		reads := slices.Concat([]dispatch.Step{dispatch.Admission(g.ctl, subjectsIn(g.whole))}, g.accounts.audit.steps(), dispatch.Results(g.ctl))
		resource := find.step(find.resource)
		resource.After = noteRead
		add(ResourceRead, send, slices.Concat(reads, []dispatch.Step{resource, shape.reads(resourceResult)})...)
		add(PromptGet, send, slices.Concat(reads, []dispatch.Step{find.step(find.prompt), shape.reads(promptResult)})...)
	}
	if holdsBack {
		add(ToolView, g.view(work), g.admit())
	}
	if mode == ModeGateway && programs != nil {
		add(ToolRun, programs.run(), programs.program(), programs.result(), g.admit())
	}
	if mode == ModeProxy || mode == ModeGateway && g.opts.ExposeHydrate {
		add(ToolHydrate, dispatch.Sender{Names: []string{"hydrate"}, Send: g.hydrate}, find.step(find.defined), g.admit())
	}
	f := &face{lists: lists, meta: &metaTable{tools: tools, holdsBack: holdsBack}, programs: programs}
	lists.meta = f.meta
	direct := slices.Concat([]dispatch.Step{g.accounts.step()}, dispatch.Shows(g.opts.Flow), []dispatch.Step{g.answer(), find.step(find.direct)})
	switch mode {
	case ModeProxy:
		if g.opts.Strict {
			break // notMeta says how such a tool is called
		}
		f.direct = dispatch.New(send, slices.Concat(direct, call)...)
	case ModePlain:
		f.direct = dispatch.New(send, slices.Concat(direct, g.headers(), []dispatch.Step{g.forClient(), promise()}, call)...)
	}
	return f
}

// DirectCalls returns the checks for calls that bypass this gateway's meta-tools.
func (g *Gateway) DirectCalls() *DirectCalls { return g.direct }

// callSteps returns the configured steps of a call of a tool (spec/gateway §4.4 and §4.5). All faces share the
// cache, which may be nil.
func (g *Gateway) callSteps(holdsBack bool, kept *dispatch.Cache, work *taskCalls) []dispatch.Step {
	var steps []dispatch.Step
	if g.opts.TolerantArgs {
		steps = append(steps, dispatch.Normalise())
	}
	steps = append(append(steps, g.tables(holdsBack).Steps()...), dispatch.Values())
	steps = append(steps, dispatch.Validate(&g.check, g.opts.Artifacts), dispatch.Admission(g.ctl, subjectsIn(g.whole)), dispatch.DryRun())
	if kept != nil {
		steps = append(steps, kept.Step())
	}
	steps = append(steps, g.accounts.audit.steps()...)
	steps = append(steps, dispatch.Results(g.ctl)...)
	return append(steps, work.client.Step())
}

// tables returns the steps that pass rows from tool to tool.
func (g *Gateway) tables(holdsBack bool) *tables.Tables {
	return tables.New(tables.Surroundings{Store: g.opts.Artifacts, Validate: g.check.Validate, ArgsError: executeArgs, ReadsMore: holdsBack, Turns: g.opts.Turns}, g.opts.Tables)
}

// newCache makes the cache of results, nil if none is configured. It takes the place of the one of
// the gateway before.
func newCache(opts *Options) *dispatch.Cache {
	var k *dispatch.Cache
	if opts.Cache.ReadOnly {
		upstreams := opts.Upstreams
		k = dispatch.NewCache(opts.Cache, func() *catalog.Catalog { return upstreams.Snapshot().Catalog })
	}
	if before := opts.State.cache.Swap(k); before != nil {
		before.Close() // calls in flight find it empty
	}
	return k
}

// Capabilities returns the capabilities for mcp.Lifecycle. Prompts, resources and completions are
// declared while an upstream offers them to the caller of ctx.
func (g *Gateway) Capabilities(ctx context.Context) json.RawMessage {
	if g.misses(ctx) {
		return g.CapabilitiesOfStart(ctx)
	}
	s := g.View(ctx)
	return capabilities(s.hasPrompts(), s.hasContents(), len(s.pages()) > 0 && g.listsPages(ctx))
}

// CapabilitiesOfStart returns the capabilities while upstreams are starting: those that they may
// have. Clients ask for no list whose capability was missing in the handshake.
func (g *Gateway) CapabilitiesOfStart(ctx context.Context) json.RawMessage {
	return capabilities(true, true, g.listsPages(ctx))
}

func capabilities(prompts, resources, pages bool) json.RawMessage {
	out := []byte(`{`)
	if prompts || resources {
		out = append(out, `"completions":{},`...)
	}
	if pages {
		out = append(out, `"extensions":{"`+appsExtension+`":{}},`...)
	}
	out = append(out, `"logging":{},`...)
	if prompts {
		out = append(out, `"prompts":{"listChanged":true},`...)
	}
	if resources {
		out = append(out, `"resources":{"subscribe":true,"listChanged":true},`...)
	}
	return append(out, `"tools":{"listChanged":true}}`...)
}

// Serve implements mcp.Handler for the requests that an mcp.Lifecycle passes on. It counts their bytes.
func (g *Gateway) Serve(ctx context.Context, r *mcp.Request) (raw json.RawMessage, err error) {
	g.await(ctx, r)
	seen := g.viewed(viewerOf(ctx))
	scope := memory.FromContext(ctx)
	if scope == nil && seen.opts.Memory != nil {
		caller := ctx
		ctx, scope = memory.WithScope(ctx)
		defer func() { raw = scope.Hand(caller, raw) }()
	}
	scope.Count(seen.opts.Memory, "principal ", r.Session.Principal())
	raw, err = seen.serve(ctx, r)
	seen.accounts.audit.probes.failed(ctx, r, err)
	return raw, err
}

func (g *Gateway) serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	switch r.Method {
	case "tools/call":
		return g.callTool(ctx, r)
	case "tools/list":
		return g.listTools(ctx, r)
	case "subscriptions/listen":
		return g.natives.listen(ctx, r)
	}
	if r.IsNotification() {
		return nil, nil
	}
	s := g.opts.Upstreams.Snapshot()
	switch {
	case r.Method == "completion/complete" && (s.hasContents() || s.hasPrompts()):
		return g.natives.complete(ctx, r)
	case s.hasPrompts() && (r.Method == "prompts/list" || r.Method == dispatch.MethodGet):
		return g.natives.servePrompts(ctx, r)
	case s.hasContents():
		return g.natives.serveResources(ctx, r)
	}
	return nil, mcp.MethodNotFound(r.Method)
}

// metaTTL is how long a client may cache the list of meta-tools. The list changes only with the
// names of the servers, which are those that exist for the caller.
const metaTTL = 300_000 // milliseconds

func (g *Gateway) listTools(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	cursor, err := cursorOf(r)
	if err != nil {
		return nil, err
	}
	by := choiceOf(ctx)
	lists := g.faces.choose(by).lists
	st := g.state.session(r)
	g.natives.followers.follow(by, r, st)
	if lists.mode != ModeGateway {
		st.mu.Lock()
		if !st.listed {
			st.listed = true
			st.remember()
		}
		st.mu.Unlock()
	}
	s := g.opts.Upstreams.Snapshot()
	of, list := lists.tools(s)
	if lists.mode != ModeGateway {
		g.caller.shownDefinitions(ctx, st, s.Catalog, primitive.KindTool)
	}
	page := list
	switch {
	case lists.mode == ModePlain:
		if page, err = lists.plain().page(cursor); err != nil {
			return nil, err
		}
	case cursor != "":
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/list: unknown cursor: the list has one page")
	}
	if cursor == "" {
		g.accounts.countList(r, st, of, list)
	}
	switch {
	case r.Modern() && g.faces.modeOf(by) != ModeGateway:
		return mcp.Cacheable(page, 0, "private"), nil
	case r.Modern():
		return mcp.Cacheable(page, metaTTL, "private"), nil
	}
	return page, nil
}

func (g *Gateway) callTool(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	p := r.Fields()
	if err := p.Unique("name", "arguments", "_meta"); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: %v", err)
	}
	name, err := rawjson.String(p.Name)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: name must be a string")
	}
	tool, verb, err := g.faces.tool(choiceOf(ctx), name)
	if err != nil {
		return nil, err
	}
	c := &dispatch.Call{Request: r, Verb: verb, Arguments: p.Arguments, Format: g.opts.Format, Session: g.state.session(r), Start: time.Now(), Passed: -1}
	if p.RawMeta != nil {
		if c.Format, err = formatOf(p.RawMeta, g.opts.Format); err != nil {
			return nil, err
		}
	}
	return tool.Run(ctx, c)
}

// answer turns errors of meta-tools into results, and removes secrets from all results.
func (g *Gateway) answer() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseAnswer, Name: "answer", After: func(ctx context.Context, c *dispatch.Call, err error) error {
		if errors.As(err, &c.Failure) {
			if c.Failure.Cause != nil {
				g.opts.Logger.WarnContext(ctx, "a call failed", "tool", c.Verb, "code", c.Failure.Code, "err", g.cause(c.Failure))
			}
			c.Reply, err = placed(c, c.Failure).Result(g.opts.Redactor, c.Format), nil
		}
		if err != nil {
			return err
		}
		clean, err := g.caller.clean(ctx, c.Reply) // including definitions: cards, schemas, errors of arguments
		if err != nil && errors.As(dispatch.Classify(ctx, "", err), &c.Failure) {
			clean, err = placed(c, c.Failure).Result(g.opts.Redactor, c.Format), nil
		}
		c.Reply = clean
		return err
	}}
}

// admit applies the controls to a meta-tool that sends nothing to a server, and to the entry of the call
// if it has one.
func (g *Gateway) admit() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseAdmit, Name: "admit", Before: func(ctx context.Context, c *dispatch.Call) error {
		a := dispatch.Act{Request: c.Request, Verb: c.Verb, Count: c.Verb, Ledger: c.Session.Ledger(), Run: cmp.Or(c.Run, c.Starts)}
		if c.Entry != nil {
			a.About = []dispatch.Subject{{Entry: c.Entry}}
		}
		_, err := g.ctl.Admit(ctx, &a)
		return err
	}}
}

// cause returns the cause of an error for the operator's log.
func (g *Gateway) cause(e *result.Error) string {
	if g.opts.LogUnredacted {
		return e.Cause.Error()
	}
	return g.opts.Redactor.Redact(e.Cause.Error())
}

// formatOf returns the format that a request asks for.
func formatOf(meta []byte, otherwise result.Format) (result.Format, error) {
	raw := rawjson.Get(meta, result.MetaFormat)
	switch string(raw) {
	case "", "null":
		return otherwise, nil
	case `"json"`:
		return result.FormatJSON, nil
	case `"text"`:
		return result.FormatText, nil
	case `"raw"`:
		return result.FormatRaw, nil
	}
	return 0, mcp.Errorf(mcp.KindInvalidParams, `_meta[%q] must be "text", "json" or "raw"`, result.MetaFormat)
}
