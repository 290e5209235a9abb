package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/metatool/ranking"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/office"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/upstream/listings"
	"github.com/weir-mcp/weir/internal/upstream/membership"
	"github.com/weir-mcp/weir/mcp"
)

// A Catalog is what the servers of a gateway offer now. It logs changes and tells them as events, and
// warns of contradictions to the configuration. It implements metatool.Upstreams. It is safe for
// concurrent use.
//
//	upstream.Manager ─▶ catalog.Live ─▶ refreshed ─▶ sessions, events, log
//	         --catalog ─────────┘
type Catalog struct {
	manager  *upstream.Manager
	live     *catalog.Live[*metatool.Snapshot]
	file     atomic.Pointer[metatool.SnapshotFile] // entries in addition to the upstreams'; may be nil
	firsts   *firstListings
	looked   atomic.Pointer[config.Config] // the last configuration whose names were checked
	listings *listings.Listings
	ranking  *ranking.Ranking // prepares the catalog for searches
	owners   *membership.Owners
	state    *metatool.State
	config   func() *config.Config
	offices  func() *office.Offices
	tell     func(telemetry.Event)
	clean    func(text string) string
	log      *slog.Logger
}

// maxLoggedChanges bounds the changes that are logged per refresh; /catalog has all of them.
const maxLoggedChanges = 20

// refreshed handles a new catalog: it tells agents and operators about the changes and checks the
// pin. upstreams names the servers whose entries changed; it is empty if only the configuration
// changed.
func (k *Catalog) refreshed(c *catalog.Catalog, upstreams []string) {
	changes := k.state.Refresh(c)
	k.listings.Changed(changes)
	for i, change := range changes {
		if i == maxLoggedChanges {
			k.log.Warn("more has changed", "changes", len(changes))
			break
		}
		log := k.log.Info
		if change.Change == catalog.EntryChanged {
			log = k.log.Warn // a tool that was already approved has changed
		}
		log("the catalog has changed: "+change.String(), "upstream", change.Upstream, "id", change.ID)
	}
	for _, upstream := range upstreams {
		k.event(telemetry.CatalogRefresh, c, upstream, changes)
	}
	if len(upstreams) == 0 {
		k.event(telemetry.CatalogRefresh, c, "", changes)
	}
	if k.firsts.over() {
		k.check(c, false)
	}
}

// event emits a catalog event: about one upstream's entries and their changes, or, with
// upstream "", about all entries.
func (k *Catalog) event(name string, c *catalog.Catalog, upstream string, changes []catalog.Change) {
	if upstream != "" {
		changes = slices.DeleteFunc(slices.Clone(changes), func(c catalog.Change) bool { return c.Upstream != upstream })
	}
	n := c.Kinds()
	k.tell(telemetry.Event{
		Time: time.Now(), Name: name, Upstream: upstream, Tools: n[primitive.KindTool], Resources: n[primitive.KindResource] + n[primitive.KindTemplate], Prompts: n[primitive.KindPrompt],
		Findings: len(c.Findings()), Hash: c.Hash(), Detail: summary(changes),
	})
}

// summary describes changes in one line; it returns "" if there are none.
func summary(changes []catalog.Change) string {
	const most = 10
	var lines []string
	for _, c := range changes[:min(most, len(changes))] {
		lines = append(lines, c.String())
	}
	if len(changes) > most {
		lines = append(lines, fmt.Sprintf("and %d more", len(changes)-most))
	}
	return strings.Join(lines, "; ")
}

// check warns the operator if the catalog contradicts the configuration. first marks the
// first complete catalog.
func (k *Catalog) check(c *catalog.Catalog, first bool) {
	k.checkPin(c)
	k.checkNames(c, first)
}

// checkNames warns the operator about configured names that no server offers. It runs once, after
// all servers have been listed. It does not wait for a server that has failed by then; the warning
// names that server.
func (k *Catalog) checkNames(c *catalog.Catalog, first bool) {
	conf := k.config()
	if k.looked.Load() == conf {
		return // and the state of every server is not asked for
	}
	var absent []string
	for _, s := range k.manager.Status() {
		if !s.Listed && !s.Off() {
			absent = append(absent, s.Name)
		}
	}
	if len(absent) > 0 && !first || k.looked.Swap(conf) == conf {
		return
	}
	var o metatool.Options
	policy.Controls(conf, &o)
	own := listingPerCaller(conf)
	for _, message := range append(metatool.Unmatched(c, o.Policy, o.RateLimits, o.Cache.Allow), metatool.UnmatchedProfiles(c, o.Profiles)...) {
		if len(absent) > 0 {
			k.log.Warn(message+"; it may be of a server that has not come up", "servers", absent)
			continue
		}
		if len(own) > 0 {
			k.log.Info(message+"; it may be of a server that lists for each caller", "servers", own)
			continue
		}
		k.log.Warn(message + "; weir ls shows what there is")
	}
}

// checkPin warns the operator if the catalog differs from the pinned one.
func (k *Catalog) checkPin(c *catalog.Catalog) {
	p := policy.Pin(k.config())
	if p.Holds(c) {
		return
	}
	message := "the catalog is not the one that is pinned"
	if p.Strict {
		message += ": nothing is executed"
	}
	k.log.Warn(message+"; look at weir ls --changes, then set pin.expected_hash", "hash", c.Hash(), "expected_hash", p.Hash)
}

// CatalogInfo is the response of /catalog: the hash of the current catalog, and its changes since
// the servers were first listed.
type CatalogInfo struct {
	Hash string `json:"hash"`
	// every server was listed or failed at least once, and no entries were left out
	Complete bool `json:"complete"`
	// servers with entries that were left out; findings gives the reasons
	Partial   []string         `json:"partial,omitempty"`
	Tools     int              `json:"tools"`
	Resources int              `json:"resources"`
	Prompts   int              `json:"prompts"`
	Pin       *pinInfo         `json:"pin,omitempty"`
	Changes   []catalog.Change `json:"changes"`
	// with ?since=TIME: the changes that weir has seen after it
	Recent   []listings.TimedChange `json:"recent,omitempty"`
	Findings []string               `json:"findings"`
	// the profiles that the caller may open
	Profiles []ProfileInfo `json:"profiles,omitempty"`
}

// ProfileInfo describes a profile in the response of /catalog, as its caller sees it.
type ProfileInfo struct {
	Name      string `json:"name"`
	Path      string `json:"path"`
	Mode      string `json:"mode"`
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Prompts   int    `json:"prompts"`
}

type pinInfo struct {
	ExpectedHash string `json:"expected_hash"`
	Mode         string `json:"mode"`
	Holds        bool   `json:"holds"`
}

// Info describes the current catalog. With a time, it has the changes since then.
func (k *Catalog) Info(since time.Time) *CatalogInfo {
	c := k.Snapshot().Catalog
	n := c.Kinds()
	info := &CatalogInfo{
		Hash: c.Hash(), Tools: n[primitive.KindTool], Resources: n[primitive.KindResource] + n[primitive.KindTemplate], Prompts: n[primitive.KindPrompt],
		Changes: k.state.Changes(), Findings: []string{}, Partial: c.Partial(),
	}
	if !since.IsZero() {
		info.Recent = k.listings.Since(since)
	}
	info.Complete = k.firsts.over() && len(info.Partial) == 0
	if pin := k.config().Pin; pin.ExpectedHash != "" {
		info.Pin = &pinInfo{pin.ExpectedHash, string(pin.Mode), dispatch.Pin{Hash: strings.ToLower(pin.ExpectedHash)}.Holds(c)}
	}
	for _, f := range slices.Concat(c.Findings(), k.owners.Findings(), k.offices().Findings(), k.state.Findings()) {
		info.Findings = append(info.Findings, k.clean(f.String()))
	}
	return info
}

// Peer implements metatool.Upstreams.
func (k *Catalog) Peer(ctx context.Context, name string) (mcp.Peer, error) {
	if f := k.file.Load(); f != nil && f.Name() == name {
		return f, nil
	}
	return k.manager.Peer(ctx, name)
}

// taskPeer is Peer for a session that has all calls of its principal.
func (k *Catalog) taskPeer(ctx context.Context, session *mcp.Session, name string) (mcp.Peer, error) {
	upstream.StandsForPrincipal(session)
	return k.Peer(ctx, name)
}

// Missing returns the servers without catalog entries.
func (k *Catalog) Missing() []metatool.Missing { return missing(k.manager, k.live) }

// Down returns the upstreams whose entries are found although they cannot be called now.
func (k *Catalog) Down() []metatool.Missing { return down(k.manager, k.live) }

// Ranking returns the searches of the catalog.
func (k *Catalog) Ranking() *ranking.Ranking { return k.ranking }

// Snapshot implements metatool.Upstreams.
func (k *Catalog) Snapshot() *metatool.Snapshot { return k.live.Snapshot() }

// filled reports whether requests need not wait for entries: each server has been listed or has failed, or the entries
// of before the restart are there.
func (k *Catalog) filled() bool { return k.firsts.over() || k.listings.Full() }

// await waits for entries as a request that shows some does.
func (k *Catalog) await(ctx context.Context) {
	if !k.filled() {
		k.firsts.await(ctx, forCatalog)
	}
}

// own returns the lists that servers have for each caller, nil if no server of a configuration has any.
func (k *Catalog) own(c *config.Config) metatool.OwnLists {
	if len(listingPerCaller(c)) == 0 {
		return nil
	}
	return k.manager
}

// MissingOwn implements metatool.Upstreams.
func (k *Catalog) MissingOwn(servers []string) (all []metatool.Missing) {
	k.manager.Each(func(of *config.Server, u *upstream.Upstream) {
		if u != nil && slices.Contains(servers, of.Name) {
			all = append(all, metatool.Missing{Upstream: of.Name, Namespace: of.Namespace, Why: "its entries for this caller are being listed"})
		}
	})
	return all
}

// serveFile serves the entries of a file as well; nil is none.
func (k *Catalog) serveFile(f *metatool.SnapshotFile) {
	if f == nil {
		return
	}
	k.file.Store(f)
	k.live.Update(f.Listing())
	var namespaces []string
	for _, e := range k.Snapshot().Catalog.Of(f.Name()) {
		namespaces = append(namespaces, e.Namespace)
	}
	k.owners.ServesFile(f.Name(), namespaces)
}

// listingPerCaller returns the names of the servers that list for each caller.
func listingPerCaller(c *config.Config) (names []string) {
	for _, s := range c.Servers {
		if s.ListsPerCaller() && !s.Disabled {
			names = append(names, s.Name)
		}
	}
	return names
}
