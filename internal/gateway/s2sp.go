package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/dispatch"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/plane"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// Store keeps what is held back: bytes, tables, and the tokens under which
// tables are fetched once. *artifact.Local is one.
type Store interface {
	artifact.Tokens
	Put(ctx context.Context, principal, mediaType, label string, data []byte) (artifact.Artifact, error)
	Open(ctx context.Context, principal, handle string) (*artifact.Lease, error)
	DepositSource(ctx context.Context, principal, label string, from artifact.Source, ttl time.Duration) (artifact.Token, error)
}

var _ Store = (*artifact.Local)(nil)

// TableOptions are S2SP in a Gateway: what becomes of results that are tables.
// The zero value has no data plane, so that tool_execute takes abstract_domains
// in mode sync only, and fetches from nobody.
//
//	tool_execute(tool_id, args, abstract_domains, mode)
//	   │ the tool takes abstract_domains itself ─▶ handed on; its resource_url leads through here where others cannot reach it
//	   │ any other tool ─▶ its result is a table ─┬─▶ async: rows wait behind resource_url ─▶ POST /s2sp/data/{token}
//	   ▼                                          └─▶ sync:  rows wait in the session behind ddi:// ─▶ body_data of the next call
//	abstract
type TableOptions struct {
	// BaseURL returns under which URL other servers reach the data plane, such
	// as "http://127.0.0.1:8088". Nil is none. It may be called concurrently.
	BaseURL func() (string, error)
	// Detect says what of an upstream's results counts as a table besides what
	// does anyway; nil adds nothing. It may be called concurrently.
	Detect func(upstream string) tables.DetectOptions
	// Reach says how other servers reach the data plane of an upstream that has
	// one of its own; nil is ReachDirect for all. It may be called concurrently.
	Reach func(upstream string) Reach
	// Fetches reports whether an upstream can fetch from BaseURL. The rows that a
	// tool of another one needs are put into its call. Nil is all can. It may be
	// called concurrently.
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
	// ReachRelay: from this machine only. A resource_url that leads to a
	// loopback address is replaced by one of the gateway, which fetches when it
	// is asked.
	ReachRelay
	// ReachNever: not even from here, as on a machine behind NAT. The upstream
	// is asked for mode sync, and the gateway keeps the rows.
	ReachNever
)

// selected are the columns that an agent reads of a table, and where the others
// go. Without domains the call is one like any other.
type selected struct {
	domains []string
	mode    plane.Mode
	native  bool // the tool splits its result itself
	keep    bool // it was asked for mode sync in place of async: the gateway keeps the rows
}

// readSelected reads abstract_domains and mode of tool_execute.
func readSelected(domains, mode []byte) (s selected, err error) {
	if s.domains, err = plane.DomainsOf(domains); err != nil {
		return s, metaArgs(ToolExecute, "%v", err)
	}
	if s.mode, err = plane.ModeOf(mode); err != nil {
		return s, metaArgs(ToolExecute, "%v", err)
	}
	return s, nil
}

// selecting prepares a call for the columns that are wanted: a tool that splits
// its results itself gets the parameters, and the others are not told.
func (g *Gateway) selecting(s selected, e *catalog.Entry, args json.RawMessage) (selected, json.RawMessage, error) {
	if s.native = dispatch.IsNative(e); !s.native || !rawjson.IsObject(args) {
		return s, args, nil
	}
	var err error
	if len(s.domains) > 0 {
		if args, err = rawjson.Set(args, plane.ParamDomains, rawjson.Quote(joinDomains(s.domains))); err != nil {
			return s, nil, metaArgs(ToolExecute, "args: %v", err)
		}
		if args, err = rawjson.Set(args, plane.ParamMode, rawjson.Quote(string(s.mode))); err != nil {
			return s, nil, metaArgs(ToolExecute, "args: %v", err)
		}
	} else {
		// What is wrong with them, the tool itself says.
		s.domains, _ = plane.DomainsOf(rawjson.Get(args, plane.ParamDomains))
		s.mode, _ = plane.ModeOf(rawjson.Get(args, plane.ParamMode))
	}
	if len(s.domains) > 0 && s.mode == plane.Async && g.reach(e.Upstream) == ReachNever {
		s.keep = true
		if args, err = rawjson.Set(args, plane.ParamMode, rawjson.Quote(string(plane.Sync))); err != nil {
			return s, nil, metaArgs(ToolExecute, "args: %v", err)
		}
	}
	return s, args, nil
}

// joinDomains writes names as a resource tool reads them.
func joinDomains(names []string) string {
	for _, name := range names {
		if strings.ContainsAny(name, `,"[`) {
			out := []byte{'['}
			for i, name := range names {
				if i > 0 {
					out = append(out, ',')
				}
				out = rawjson.AppendString(out, name)
			}
			return string(append(out, ']'))
		}
	}
	return strings.Join(names, ",")
}

func (g *Gateway) reach(upstream string) Reach {
	if g.opts.Tables.Reach == nil {
		return ReachDirect
	}
	return g.opts.Tables.Reach(upstream)
}

func (g *Gateway) detect(upstream string) tables.DetectOptions {
	if g.opts.Tables.Detect == nil {
		return tables.DetectOptions{}
	}
	return g.opts.Tables.Detect(upstream)
}

// base is the URL of the data plane.
func (g *Gateway) base() (string, error) {
	if g.opts.Tables.BaseURL == nil {
		return "", errNoPlane
	}
	return g.opts.Tables.BaseURL()
}

var errNoPlane = errors.New("this gateway has no address under which other servers can fetch; use mode sync, or run it with weir serve")

// split makes of a result what the agent gets of it: the columns it asked for,
// where the tool has not done so itself, and no bodies. The result may be shared
// and is not changed.
func (g *Gateway) split(ctx context.Context, c *dispatch.Call, s selected, result json.RawMessage) (json.RawMessage, error) {
	asked := s.native && len(s.domains) > 0 && (s.mode == plane.Sync || s.keep)
	if !dispatch.Cacheable(result) { // an error, or a question
		return hideBodies(c, asked, result)
	}
	switch {
	case s.native && s.keep:
		kept, err := g.keepBodies(ctx, c, result)
		if err != nil {
			return nil, g.keepError(ctx, c, err)
		}
		result = kept
	case s.native && g.reach(c.Entry.Upstream) == ReachRelay:
		r := relays{store: g.opts.Artifacts, base: g.base, ttl: g.opts.Tables.TTL, principal: c.Request.Session.Principal(), label: c.Entry.ID}
		relayed, err := r.replace(ctx, result)
		if err != nil {
			return nil, g.keepError(ctx, c, err)
		}
		result = relayed
	case !s.native && len(s.domains) > 0:
		return g.divide(ctx, c, s, result)
	}
	return hideBodies(c, asked, result)
}

// hideBodies takes the bodies out of a result, or withholds it where that cannot
// be done. asked says that the call was one of mode sync.
func hideBodies(c *dispatch.Call, asked bool, raw json.RawMessage) (json.RawMessage, error) {
	hide := c.Waiting.Bodies().OnToolResult
	if asked {
		hide = c.Waiting.Bodies().OnSyncResult
	}
	out, err := hide(raw)
	if err != nil {
		return nil, &result.Error{Code: result.UpstreamError, Cause: err, Details: executed(c),
			Message: fmt.Sprintf("%s HAS run, but its answer is withheld, because it may hold %v. Ask with mode async, or have its server write JSON; another call runs it again", c.Entry.ID, err)}
	}
	return out, nil
}

// executed are the details of an error after which the tool has run.
func executed(c *dispatch.Call) json.RawMessage {
	return append(rawjson.AppendString([]byte(`{"tool_id":`), c.Entry.ID), `,"executed":true}`...)
}

// divide answers for a tool that knows nothing of S2SP.
func (g *Gateway) divide(ctx context.Context, c *dispatch.Call, s selected, raw json.RawMessage) (json.RawMessage, error) {
	t, err := tableOf(raw, g.detect(c.Entry.Upstream))
	switch {
	case err != nil && !g.holdsBack():
		return raw, nil // there is no tool_view to read with what would be kept
	case err != nil:
		return nil, g.notTable(ctx, c, raw, err)
	}
	resourceURL := ""
	if s.mode == plane.Async {
		if resourceURL, err = g.deposit(ctx, c, t); err != nil {
			return nil, g.keepError(ctx, c, err)
		}
	}
	out := result.Text(plane.Response(t, s.domains, s.mode, resourceURL))
	if s.mode == plane.Sync {
		return hideBodies(c, true, out)
	}
	return out, nil
}

// deposit keeps rows for one fetch and returns where they are fetched.
func (g *Gateway) deposit(ctx context.Context, c *dispatch.Call, t *tables.Table) (string, error) {
	base, err := g.base()
	if err != nil {
		return "", err
	}
	token, err := g.opts.Artifacts.Deposit(ctx, c.Request.Session.Principal(), c.Entry.ID, t, g.opts.Tables.TTL)
	if err != nil {
		return "", err
	}
	return plane.URL(base, token.Value), nil
}

// mayKeep refuses, before anything is run, a call whose rows would have to wait
// here for others where nobody reaches this gateway.
func (g *Gateway) mayKeep(s selected) error {
	if len(s.domains) == 0 || s.mode != plane.Async || s.native && !s.keep {
		return nil
	}
	if _, err := g.base(); err != nil {
		return metaArgs(ToolExecute, "%s: %v; nothing was run", plane.ParamDomains, err)
	}
	return nil
}

// keepError is why rows could not be kept. The tool has run, so this is no
// mistake in the arguments, and trying again has its price.
func (g *Gateway) keepError(ctx context.Context, c *dispatch.Call, err error) error {
	var e *result.Error
	if errors.As(err, &e) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &result.Error{Code: result.UpstreamError, Cause: err, Details: executed(c),
		Message: fmt.Sprintf("%s HAS run, but its rows could not be kept for other servers: %v. Another call runs it again; mode sync needs no room", c.Entry.ID, err)}
}

// notTable is why a result has no columns to choose from. The tool has run, so
// what it answered is kept.
func (g *Gateway) notTable(ctx context.Context, c *dispatch.Call, raw json.RawMessage, why error) error {
	e := &result.Error{Code: result.ArgsInvalid, Cause: why, Message: fmt.Sprintf(
		"abstract_domains: what %s answered is no table (%s), so it has no columns to choose; call it without abstract_domains", c.Entry.ID, strings.TrimPrefix(why.Error(), tables.ErrNotTable.Error()+": "))}
	e.Details = rawjson.AppendString([]byte(`{"tool_id":`), c.Entry.ID)
	if a, err := g.opts.Artifacts.Put(ctx, c.Request.Session.Principal(), "application/json", c.Entry.ID, raw); err == nil {
		e.Message += "; it has run, and its answer is kept as " + a.Handle
		e.Details = rawjson.AppendString(append(e.Details, `,"handle":`...), a.Handle)
	}
	e.Details = append(e.Details, '}')
	return e
}

// tableOf finds the table that a tool's result is: its structuredContent, its
// text, or one row a text block. The table does not share the result's bytes.
func tableOf(result json.RawMessage, opts tables.DetectOptions) (*tables.Table, error) {
	var fields [2][]byte
	if err := rawjson.Fields(result, []string{"content", "structuredContent"}, fields[:]); err != nil {
		return nil, err
	}
	var why error
	if structured := fields[1]; rawjson.IsObject(structured) || rawjson.IsArray(structured) {
		own := opts
		own.CSV = false
		t, err := tables.Detect(bytes.Clone(structured), own)
		if err == nil || !errors.Is(err, tables.ErrNotTable) {
			return t, err
		}
		why = err
	}
	var texts [][]byte
	if rawjson.IsArray(fields[0]) {
		var bad error
		err := rawjson.EachElement(fields[0], func(block []byte) bool {
			if text := rawjson.Get(block, "text"); rawjson.Text(rawjson.Get(block, "type")) == "text" && len(text) > 0 && text[0] == '"' {
				var data []byte
				data, bad = rawjson.Unquote(text)
				if bytes.IndexByte(text, '\\') < 0 {
					data = bytes.Clone(data) // of the result, which the rows outlive
				}
				texts = append(texts, bytes.TrimSpace(data))
			}
			return bad == nil
		})
		if err = errors.Join(bad, err); err != nil {
			return nil, err
		}
	}
	switch {
	case len(texts) == 1:
		t, err := tables.Detect(texts[0], opts)
		if err == nil || why == nil {
			return t, err
		}
	case len(texts) > 1:
		t, err := tables.Blocks(texts, opts.Options)
		if errors.Is(err, tables.ErrNotTable) || errors.Is(err, rawjson.ErrSyntax) {
			return nil, fmt.Errorf("%w: its %d blocks of text are no rows", tables.ErrNotTable, len(texts))
		}
		return t, err
	case why == nil:
		why = fmt.Errorf("%w: it has no text", tables.ErrNotTable)
	}
	return nil, why
}

// keepBodies takes the rows over of a tool that was asked for mode sync because
// nobody reaches its data plane, so that the answer is one of mode async.
func (g *Gateway) keepBodies(ctx context.Context, c *dispatch.Call, result json.RawMessage) (json.RawMessage, error) {
	var failed error
	kept := ""
	out := syncbody.EachDocument(result, "abstract", func(obj []byte) ([]byte, bool) {
		var f [2][]byte
		if failed != nil || rawjson.Fields(obj, []string{"abstract", "body"}, f[:]) != nil || f[0] == nil || f[1] == nil || string(f[1]) == "null" {
			return nil, false
		}
		if kept == "" {
			var t *tables.Table
			if t, failed = mergeBody(f[0], f[1]); failed != nil {
				return nil, false
			}
			if kept, failed = g.deposit(ctx, c, t); failed != nil {
				return nil, false
			}
		}
		next, err := rawjson.Delete(obj, "body")
		if err == nil {
			next, err = rawjson.Set(next, plane.ParamURL, rawjson.Quote(kept))
		}
		failed = err
		return next, err == nil
	})
	return out, failed
}

// mergeBody is the table that an answer of mode sync has in two parts.
func mergeBody(abstract, body []byte) (*tables.Table, error) {
	a, err := rowsIn(abstract)
	if err != nil {
		return nil, fmt.Errorf("reading the abstract: %w", err)
	}
	b, err := rowsIn(body)
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	t, err := tables.Merge(a.View(), b.View())
	if err == nil && t.Len() < a.Len() && t.Len() == 0 {
		return nil, fmt.Errorf("its rows have no %s", tables.RowID)
	}
	return t, err
}

// rowsIn reads the rows that a value is: a list of them, one, or either as text.
func rowsIn(value []byte) (*tables.Table, error) {
	if text, err := rawjson.Unquote(value); err == nil {
		value = text
	}
	if string(value) == "null" {
		value = []byte("[]")
	}
	// The view is merged, which copies the rows.
	return tables.Detect(value, tables.DetectOptions{Options: tables.Options{KeepRowID: true}, One: true})
}
