package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Bounds of one list of one server, and times for reading it.
const (
	maxPages    = 1000
	maxEntries  = 20_000
	maxListKept = 32 << 20 // bytes of the definitions in the catalog
	maxListRead = 64 << 20 // bytes of the pages
	maxOwnKept  = 8 << 20  // bytes of the definitions in all lists of one principal
	pageTimeout = 30 * time.Second
	// debounce is the time between list_changed and reading the lists: a server that changes ten
	// tools sends ten notifications.
	debounce      = 250 * time.Millisecond
	firstRelist   = time.Second // after lists that could not be read
	longestRelist = time.Minute
)

// lists are the tools, resources and prompts of one server as last listed. They go to the Sink
// until lists is retired.
type lists struct {
	srv     *server
	found   bool   // the server is not configured
	refresh func() // makes the lists be read again

	order  atomic.Int64
	listed atomic.Bool // the Sink has the entries
	asks   atomic.Bool // the Sink has signInTool in their place
	rules  atomic.Pointer[toolRules]
	out    outlet
	added  added
	own    *members // of a server that lists for each principal, which tells the Sink nothing; else nil

	settled    chan struct{} // closed after the first reading, successful or not
	settleOnce sync.Once

	learning chan struct{} // holds the one goroutine that lists the tools for their headers
	learned  time.Time     // the last time of that; guarded by learning

	mu      sync.Mutex // guards below
	counts  [3]int     // tools, resources, prompts
	hash    uint64     // of the listing that the Sink has
	listErr error
}

func (ls *lists) init(srv *server, at place) {
	ls.srv, ls.found, ls.learning, ls.settled = srv, at.found, make(chan struct{}, 1), make(chan struct{})
	ls.order.Store(int64(at.order))
}

// settle says that there was a first reading, or that there will be none.
func (ls *lists) settle() { ls.settleOnce.Do(func() { close(ls.settled) }) }

// perCaller reports whether the server lists for each principal.
func (ls *lists) perCaller() bool { return ls.own != nil }

// setOrder sets the place in the configuration, which decides between two servers that offer the
// same id. A change takes effect with a new listing.
func (ls *lists) setOrder(i int) {
	switch {
	case ls.order.Swap(int64(i)) == int64(i):
	case ls.perCaller():
		ls.own.again()
	default:
		ls.refresh()
	}
}

// OrderOf returns the place of an upstream among all, as its listings have it.
func OrderOf(u *Upstream) int { return int(u.lists.order.Load()) }

// Relist makes the lists of a connected upstream be read again. One that is not connected reads them when it connects.
func Relist(u *Upstream) { u.lists.refresh() }

// failed stores the error of the last reading, nil for success.
func (ls *lists) failed(err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.listErr = err
}

// state returns the counts of tools, resources and prompts, and the error of the last reading.
func (ls *lists) state() (counts [3]int, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.counts, ls.listErr
}

// listBytes bounds the bytes of one list.
type listBytes struct {
	kept  int // of the definitions in the catalog
	read  int // of the pages
	whole int // of the definitions in all lists of one principal; 0 if each list has a bound of its own
}

// exceeded says that a list has more than kept.
func (b listBytes) exceeded() string {
	if b.whole > 0 {
		return fmt.Sprintf("the lists of one principal have more than %d bytes of definitions", b.whole)
	}
	return fmt.Sprintf("its definitions have more than %d bytes", b.kept)
}

// list reads the lists and hands them to the Sink, once for the connection and again whenever the
// server reports a change. listed is closed after the first attempt, successful or not.
func (s *slot) list(ctx context.Context, l *link, listed chan<- struct{}) {
	lists, log := s.conns.lists, s.srv.log
	select {
	case <-s.relist: // from before the lists are read
	default:
	}
	retry := firstRelist
	for first := true; ; first = false {
		err := lists.read(ctx, l)
		if ctx.Err() != nil {
			return
		}
		lists.failed(err)
		if refusesHolder(s.srv.cfg, err) {
			log.Warn("the lists cannot be read with the credential of this principal, or without one", "err", err)
			lists.offerSignIn()
			s.calls.lose(l, holderError{err})
			lists.settle()
			return
		}
		again := make(<-chan time.Time)
		var timer *time.Timer
		if err != nil {
			log.Warn("the lists cannot be read", "err", err, "retry_in", retry)
			timer = time.NewTimer(retry)
			again = timer.C
			retry = min(2*retry, longestRelist)
		} else {
			retry = firstRelist
		}
		if first {
			lists.settle()
			close(listed)
		}
		select {
		case <-ctx.Done():
		case <-again:
		case <-s.relist:
			if !subscription.Sleep(ctx, debounce) {
				return
			}
			select {
			case <-s.relist: // the lists include this change
			default:
			}
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// read reads all lists of the server and hands them on.
func (ls *lists) read(ctx context.Context, l *link) error {
	out, rules, err := ls.gather(ctx, l)
	if err != nil {
		return err
	}
	ls.rules.Store(rules)
	ls.added.merge(&out)
	ls.deliver(out)
	return nil
}

// listing returns a listing of the server without entries.
func (ls *lists) listing() primitive.Listing {
	return primitive.Listing{Upstream: ls.srv.name, Namespace: ls.srv.cfg.Namespace, Order: int(ls.order.Load()), Found: ls.found, Tags: ls.srv.cfg.Tags,
		Folders: foldersOf(ls.srv.cfg.Args)}
}

// maxFolders bounds the folders of a listing.
const maxFolders = 4

// foldersOf returns the absolute paths among the arguments of a program.
func foldersOf(args []string) (folders []string) {
	for _, arg := range args {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		if filepath.IsAbs(arg) && len(folders) < maxFolders {
			folders = append(folders, arg)
		}
	}
	return folders
}

// gather reads all lists of the server over a connection. It returns an error if the tools cannot be
// listed, or if ctx or the connection ends before the last list: its entries would seem to be removed.
// Other lists that cannot be read are logged and left out.
func (ls *lists) gather(ctx context.Context, l *link) (primitive.Listing, *toolRules, error) {
	out := ls.listing()
	caps := l.hello.Capabilities
	has := func(name string) bool { return rawjson.Get(caps, name) != nil }
	limit := ls.srv.opts.listBytes
	if ls.perCaller() {
		limit.whole = min(limit.kept, maxOwnKept)
		limit.kept = limit.whole
	}
	silent := !has("tools") && !has("resources") && !has("prompts")
	for _, list := range []struct {
		capability, method, key string
		into                    *[]json.RawMessage
	}{
		{"tools", "tools/list", "tools", &out.Tools},
		{"resources", "resources/list", "resources", &out.Resources},
		{"resources", "resources/templates/list", "resourceTemplates", &out.ResourceTemplates},
		{"prompts", "prompts/list", "prompts", &out.Prompts},
	} {
		// A server that declares no capabilities may have forgotten to.
		if !has(list.capability) && !(silent && list.capability == "tools") {
			continue
		}
		entries, cut, err := ls.readList(ctx, l, list.method, list.key, limit)
		var wire *jsonrpc.Error
		switch {
		case err == nil:
			*list.into = entries
			if ls.perCaller() {
				for _, raw := range entries {
					limit.kept -= primitive.KeptSize(raw)
				}
			}
			if cut != "" {
				out.Cut = append(out.Cut, cut)
			}
		case errors.As(err, &wire) && wire.Code == jsonrpc.CodeMethodNotFound && (silent || list.capability != "tools"):
		case list.capability == "tools" || ctx.Err() != nil || l.ended():
			return out, nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: %s: %w", ls.srv.who, list.method, err)
		default:
			ls.srv.log.Warn("a list cannot be read and is left out", "method", list.method, "err", err)
		}
	}
	var rules *toolRules
	out.Tools, rules = ls.offered(l, out.Tools)
	return out.Presented(l.hello.ServerInfo, l.hello.Instructions), rules, nil
}

// readList reads all pages of one list. If a list is endless, or too large for a catalog, readList
// returns its beginning, and cut is the reason.
func (ls *lists) readList(ctx context.Context, l *link, method, key string, limit listBytes) (entries []json.RawMessage, cut string, err error) {
	var params json.RawMessage
	seen := map[string]bool{}
	read, kept := 0, 0
	for page := 1; ; page++ {
		result, err := l.Call(ctx, pageTimeout, method, params, nil)
		if err != nil {
			return nil, "", err
		}
		var list, next []byte
		if err := rawjson.Scan(result, rawjson.Key(key, &list), rawjson.Key("nextCursor", &next)); err != nil {
			return nil, "", mcp.Errorf(mcp.KindUpstreamUnavailable, "the answer cannot be read: %w", err)
		}
		read += len(result)
		why := ""
		if list != nil && string(list) != "null" {
			err := rawjson.EachElement(list, func(value []byte) bool {
				if len(entries) == maxEntries {
					why = fmt.Sprintf("it has more than %d entries", maxEntries)
					return false
				}
				if kept += primitive.KeptSize(value); kept > limit.kept {
					why = limit.exceeded()
					return false
				}
				entries = append(entries, value)
				return true
			})
			if err != nil {
				return nil, "", mcp.Errorf(mcp.KindUpstreamUnavailable, "the answer cannot be read: %w", err)
			}
		}
		cursor := string(next)
		switch {
		case why != "":
		case cursor == "" || cursor == "null" || cursor == `""`:
			return entries, "", nil
		case seen[cursor]:
			why = "the server gives the same cursor twice"
		case page == maxPages:
			why = fmt.Sprintf("it has more than %d pages", maxPages)
		case read > limit.read:
			why = fmt.Sprintf("its pages have more than %d bytes", limit.read)
		}
		if why != "" {
			return entries, fmt.Sprintf("%s is cut after %d entries: %s", method, len(entries), why), nil
		}
		seen[cursor] = true
		params = append(append(json.RawMessage(`{"cursor":`), cursor...), '}')
	}
}

// offered returns the tools that the configuration allows. Over modern HTTP a tool whose schema
// requires impossible headers cannot be called and is left out as well (2026-07-28). offered also
// returns what calls of the tools must keep to.
func (ls *lists) offered(l *link, tools []json.RawMessage) (kept []json.RawMessage, rules *toolRules) {
	rules = &toolRules{}
	kept = tools[:0]
	for _, tool := range tools {
		var id, schema []byte
		if rawjson.Scan(tool, rawjson.Key("name", &id), rawjson.Key("inputSchema", &schema)) != nil {
			kept = append(kept, tool) // the catalog reports its faults
			continue
		}
		name := rawjson.Text(id)
		if !ls.srv.cfg.Offers(name) {
			continue
		}
		h, err := streamable.ParseParamHeaders(schema)
		if err != nil && l.http && l.hello.Modern {
			ls.srv.log.Warn("a tool is left out", "tool", name, "err", err)
			rules.bar(name, err)
			continue
		}
		if err == nil && len(h) > 0 {
			rules.demand(name, h)
		}
		kept = append(kept, tool)
	}
	return kept, rules
}

// listingSeed makes hashes of listings comparable within this process.
var listingSeed = maphash.MakeSeed()

func hashListing(l *primitive.Listing) uint64 {
	var h maphash.Hash
	h.SetSeed(listingSeed)
	_ = h.WriteByte(byte(l.Order))
	_ = h.WriteByte(byte(l.Order >> 8))
	for _, cut := range l.Cut {
		_, _ = h.WriteString(cut)
		_ = h.WriteByte(2)
	}
	for _, text := range []string{l.Title, l.About, l.Instructions, string(l.Greeting.ServerInfo), l.Greeting.Instructions} {
		_, _ = h.WriteString(text)
		_ = h.WriteByte(3)
	}
	for _, list := range [][]json.RawMessage{l.Tools, l.Resources, l.ResourceTemplates, l.Prompts} {
		for _, entry := range list {
			_, _ = h.Write(entry)
			_ = h.WriteByte(0)
		}
		_ = h.WriteByte(1)
	}
	return h.Sum64()
}

// deliver hands a listing to the Sink unless the Sink has the same already.
func (ls *lists) deliver(l primitive.Listing) {
	hash := hashListing(&l)
	ls.asks.Store(false)
	ls.mu.Lock()
	same := ls.listed.Load() && ls.hash == hash
	ls.hash = hash
	ls.counts = [3]int{len(l.Tools), len(l.Resources) + len(l.ResourceTemplates), len(l.Prompts)}
	ls.mu.Unlock()
	if same {
		return
	}
	if ls.srv.opts.Sink != nil {
		ls.out.tell(func() { ls.srv.opts.Sink.Update(l) })
	}
	ls.listed.Store(true)
	ls.srv.log.Info("listed", "tools", len(l.Tools), "resources", len(l.Resources)+len(l.ResourceTemplates), "prompts", len(l.Prompts))
}

// remove removes the entries from the Sink, because the upstream was down for too long.
func (ls *lists) remove() {
	ls.listed.Store(false)
	ls.mu.Lock()
	ls.counts = [3]int{}
	ls.mu.Unlock()
	if ls.srv.opts.Sink != nil {
		ls.out.tell(func() { ls.srv.opts.Sink.Remove(ls.srv.name) })
	}
	ls.srv.log.Warn("its entries are removed: it was unavailable for too long", "grace", ls.srv.opts.Grace)
}
