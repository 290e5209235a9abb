package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Retry configures the repetition of calls that failed on their way (spec/gateway §4.5).
type Retry struct {
	MaxAttempts    int           `key:"max_attempts" default:"1" min:"1" doc:"How often a call is tried, the first time included. With more than 1, a tool may run twice: a call that timed out may have run."`
	BaseDelay      time.Duration `key:"base_delay" default:"100ms" doc:"Time before the second attempt; it doubles before each further one."`
	MaxDelay       time.Duration `key:"max_delay" default:"5s" doc:"The longest time between two attempts."`
	Jitter         float64       `key:"jitter" default:"0" doc:"The part of each delay, from 0 to 1, of which a random share is taken off."`
	RetryableCodes []string      `key:"retryable_codes" empty:"refused" doc:"Errors after which a call is tried again. Default: UPSTREAM_TIMEOUT and UPSTREAM_UNAVAILABLE. Errors of the server itself are never tried again. Nor are HTTP statuses that another attempt would not change: 3xx, 501, and 4xx other than 408, 425 and 429."`
}

// Tasks bounds the waiting for calls that a server answers with a task.
type Tasks struct {
	Wait time.Duration `key:"wait" default:"30s" doc:"How long a call waits for its task, and each tool_view of the task's handle. Then the agent gets the handle and the task's status. 0 gives the handle at once."`
	TTL  time.Duration `key:"ttl" default:"1h" min:"1s" doc:"How long a handle works, and how long servers are asked to keep the result."`
	Max  int           `key:"max" default:"64" min:"1" doc:"Most tasks of one principal. A task that has ended makes room for a new one; while all run, a tool that runs as a task is refused."`
}

// RateLimit bounds calls of one kind in one session; 0 sets no bound.
type RateLimit struct {
	MaxCallsPerMinute  int `key:"max_calls_per_minute" min:"1" doc:"Most calls in any 60 seconds. Default: no limit."`
	MaxCallsPerSession int `key:"max_calls_per_session" min:"1" doc:"Most calls in a session. Default: no limit."`
}

// ToolLimit is the RateLimit of one tool.
type ToolLimit struct {
	// ToolID is the key in per_tool.
	ToolID             string
	MaxCallsPerMinute  int `key:"max_calls_per_minute" min:"1" doc:"Most calls of this tool in any 60 seconds. Default: no limit."`
	MaxCallsPerSession int `key:"max_calls_per_session" min:"1" doc:"Most calls of this tool in a session. Default: no limit."`
}

// RateLimits are the quotas of each session (spec/gateway §4.5).
type RateLimits struct {
	ToolBrowse     RateLimit    `key:"tool_browse" doc:"Calls of tool_browse."`
	ToolExecute    RateLimit    `key:"tool_execute" doc:"Calls of tool_execute, of all tools together."`
	ToolView       RateLimit    `key:"tool_view" doc:"Calls of tool_view."`
	ToolRun        RateLimit    `key:"tool_run" doc:"Calls of tool_run. The calls that a program makes count for tool_execute."`
	ToolHydrate    RateLimit    `key:"tool_hydrate" doc:"Calls of tool_hydrate."`
	ResourceBrowse RateLimit    `key:"resource_browse" doc:"Calls of resource_browse."`
	ResourceRead   RateLimit    `key:"resource_read" doc:"Calls of resource_read."`
	PromptBrowse   RateLimit    `key:"prompt_browse" doc:"Calls of prompt_browse."`
	PromptGet      RateLimit    `key:"prompt_get" doc:"Calls of prompt_get."`
	PerTool        []*ToolLimit `key:"per_tool" empty:"same" name:"ToolID" doc:"Calls of single tools, by tool_id, in addition to the limit of tool_execute; at /mcps/NAME/mcp, too."`
}

// MetaTools returns the limits that are set, by name of the meta-tool.
func (l *RateLimits) MetaTools() map[string]RateLimit {
	set := map[string]RateLimit{}
	for name, limit := range map[string]RateLimit{
		"tool_browse": l.ToolBrowse, "tool_execute": l.ToolExecute, "tool_view": l.ToolView, "tool_run": l.ToolRun, "tool_hydrate": l.ToolHydrate,
		"resource_browse": l.ResourceBrowse, "resource_read": l.ResourceRead, "prompt_browse": l.PromptBrowse, "prompt_get": l.PromptGet,
	} {
		if limit != (RateLimit{}) {
			set[name] = limit
		}
	}
	return set
}

// Cache selects the results that are kept and answered again (spec/gateway §4.5).
type Cache struct {
	ReadOnly   bool          `key:"read_only" default:"false" doc:"Keep results of tools that declare themselves read-only. The declaration is the server's and is not verified: name the tools in allow where it matters."`
	Allow      []string      `key:"allow" empty:"refused" doc:"The only tool_ids whose results are kept. Default: every tool that declares itself read-only."`
	TTL        time.Duration `key:"ttl" default:"1m" min:"1ms" doc:"How long a result is kept."`
	MaxEntries int           `key:"max_entries" default:"256" min:"1" doc:"How many results are kept, for all principals together."`
	MaxBytes   Bytes         `key:"max_bytes" default:"64MB" min:"1" doc:"How many bytes of results are kept, for all principals together."`
}

// Events says where events are written.
type Events struct {
	File   string `key:"file" doc:"JSON lines, one for each call and each change of the catalog, are appended to this file; stderr writes them to standard error. Default: nowhere."`
	Stream bool   `key:"stream" default:"false" doc:"Send the same events to a stream of the store, which has those of all gateways that share it, with the node of each: weir events shows them. An event stays for a day at most, and the stream has at most 1GB, or store.max_bytes if that is less. Events that the store does not take are lost and counted."`
}

// maxEventStream is the most that the stream of events may have.
const maxEventStream = 1 << 30

// StreamBytes returns the bound of the stream of events, 0 if there is none.
func (c *Config) StreamBytes() int64 {
	if !c.Events.Stream {
		return 0
	}
	return min(int64(c.Store.MaxBytes), maxEventStream)
}

// EventsStderr is the value of Events.File for standard error.
const EventsStderr = "stderr"

const (
	maxAttempts  = 10
	maxPerMinute = 100_000 // so many times are remembered for each session
)

// retryable lists the codes of calls to a server that failed.
var retryable = []string{"UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE", "UPSTREAM_ERROR", "RATE_LIMITED", "AUTH_FAILED", "PERMISSION_DENIED"}

func (d *decoder) checkControls(c *Config) {
	checkRetry(d.Decoder, &c.Retry)
	checkTasks(d.Decoder, &c.Tasks)
	checkPrograms(d, &c.Programs)
	checkLimits(d.Decoder, &c.RateLimits)
	checkCache(d.Decoder, &c.Cache)
	checkPolicy(d.Decoder, &c.Policy)
	checkFlow(d, &c.Flow, c.Servers)
	checkAudit(d, c)
	if c.Events.Stream && (c.Store.At == storeMemory || strings.HasPrefix(c.Store.At, storeFile)) {
		d.Fail(d.At("events.stream"), "events.stream", "events.stream needs a store that gateways share: write store: nats://HOST:PORT, or events.file for the events of one gateway")
	}
	if file := c.Events.File; file != "" && file != EventsStderr && !filepath.IsAbs(file) && d.dir != "" {
		c.Events.File = filepath.Join(d.dir, file)
	}
}

// Upper bounds of tasks.
const (
	maxTaskWait = 10 * time.Minute
	maxTaskTTL  = 7 * 24 * time.Hour
	maxTasks    = 1024
)

func checkTasks(d *strict.Decoder, t *Tasks) {
	if t.Wait > maxTaskWait {
		d.Fail(d.At("tasks.wait"), "tasks.wait", "tasks.wait must be at most %s, not %s: clients give up on a call before", maxTaskWait, t.Wait)
	}
	if t.TTL > maxTaskTTL {
		d.Fail(d.At("tasks.ttl"), "tasks.ttl", "tasks.ttl must be at most %s, not %s", maxTaskTTL, t.TTL)
	}
	if t.Max > maxTasks {
		d.Fail(d.At("tasks.max"), "tasks.max", "tasks.max must be at most %d, not %d", maxTasks, t.Max)
	}
}

func checkRetry(d *strict.Decoder, r *Retry) {
	if r.MaxAttempts > maxAttempts {
		d.Fail(d.At("retry.max_attempts"), "retry.max_attempts", "retry.max_attempts must be at most %d, not %d", maxAttempts, r.MaxAttempts)
	}
	if r.BaseDelay > r.MaxDelay {
		key := "retry.max_delay"
		if !d.Set(key) {
			key = "retry.base_delay"
		}
		d.Fail(d.At(key), key, "retry.base_delay (%s) is longer than retry.max_delay (%s)", r.BaseDelay, r.MaxDelay)
	}
	if r.Jitter < 0 || r.Jitter > 1 || r.Jitter != r.Jitter {
		d.Fail(d.At("retry.jitter"), "retry.jitter", "retry.jitter must be from 0 to 1, not %v", r.Jitter)
	}
	for i, code := range r.RetryableCodes {
		if !slices.Contains(retryable, code) {
			hint := ""
			if near := strict.Nearest(code, retryable); near != "" {
				hint = "; did you mean " + strconv.Quote(near) + "?"
			}
			d.Fail(d.At("retry.retryable_codes"), "retry.retryable_codes", "retry.retryable_codes[%d] must be %s, not %q%s", i, strict.OneOf(retryable), strict.Clip(code), hint)
		}
	}
	if len(r.RetryableCodes) > 0 && r.MaxAttempts == 1 && !d.Set("retry.max_attempts") {
		d.Warn(d.At("retry"), "retry", "retry has no effect while retry.max_attempts is 1, which is the default")
	}
}

func checkLimits(d *strict.Decoder, l *RateLimits) {
	bound := func(path string, perMinute int) {
		if key := strict.Join(path, "max_calls_per_minute"); perMinute > maxPerMinute {
			d.Fail(d.At(key), key, "%s must be at most %d; leave it out for no limit", key, maxPerMinute)
		}
	}
	for name, limit := range l.MetaTools() {
		bound(strict.Join("rate_limits", name), limit.MaxCallsPerMinute)
	}
	for _, t := range l.PerTool {
		path := strict.Join("rate_limits.per_tool", t.ToolID)
		checkToolID(d, t.ToolID, path)
		bound(path, t.MaxCallsPerMinute)
		if t.MaxCallsPerMinute == 0 && t.MaxCallsPerSession == 0 && !d.Set(strict.Join(path, "max_calls_per_minute")) && !d.Set(strict.Join(path, "max_calls_per_session")) {
			d.Fail(d.At(path), path, "%s sets no limit; give max_calls_per_minute or max_calls_per_session", path)
		}
	}
}

// checkToolID refuses a text that cannot be a tool_id (spec/gateway §1.1).
func checkToolID(d *strict.Decoder, id, path string) {
	namespace, name, ok := strings.Cut(id, ":")
	if !ok || namespace == "" || name == "" || len(id) > 240 {
		d.Fail(d.At(path), path, "%s: %q is no tool_id; one looks like files:read_file@1 or files:read_file#85b56782 (weir ls prints them)", path, strict.Clip(id))
	}
}

func checkCache(d *strict.Decoder, c *Cache) {
	for _, id := range c.Allow {
		checkToolID(d, id, "cache.allow")
	}
	if len(c.Allow) > 0 && !c.ReadOnly {
		d.Warn(d.At("cache.allow"), "cache.allow", "cache.allow has no effect without cache.read_only: true")
	}
}
