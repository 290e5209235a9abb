package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// maxLoggedChanges bounds the changes that are logged per refresh; /catalog has all of them.
const maxLoggedChanges = 20

// refreshed handles a new catalog: it tells agents and operators about the changes and checks the
// pin. upstreams names the servers whose entries changed; it is empty if only the configuration
// changed.
func (e *Engine) refreshed(c *catalog.Catalog, upstreams []string) {
	changes := e.state.Refresh(c)
	e.listings.changed(changes)
	for i, change := range changes {
		if i == maxLoggedChanges {
			e.log.Warn("more has changed", "changes", len(changes))
			break
		}
		log := e.log.Info
		if change.Change == catalog.EntryChanged {
			log = e.log.Warn // a tool that was already approved has changed
		}
		log("the catalog has changed: "+change.String(), "upstream", change.Upstream, "id", change.ID)
	}
	for _, upstream := range upstreams {
		e.tellCatalog(telemetry.CatalogRefresh, c, upstream, changes)
	}
	if len(upstreams) == 0 {
		e.tellCatalog(telemetry.CatalogRefresh, c, "", changes)
	}
	if e.firsts.over() {
		e.checkCatalog(c, false)
	}
}

// tellCatalog emits a catalog event: about one upstream's entries and their changes, or, with
// upstream "", about all entries.
func (e *Engine) tellCatalog(name string, c *catalog.Catalog, upstream string, changes []catalog.Change) {
	if upstream != "" {
		changes = slices.DeleteFunc(slices.Clone(changes), func(c catalog.Change) bool { return c.Upstream != upstream })
	}
	n := Kinds(c)
	e.tell(telemetry.Event{
		Time: time.Now(), Name: name, Upstream: upstream, Tools: n[catalog.KindTool], Resources: n[catalog.KindResource] + n[catalog.KindTemplate], Prompts: n[catalog.KindPrompt],
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

// pinOf converts a configuration's pin, and its guard of hidden text.
func pinOf(c *config.Config) dispatch.Pin {
	return dispatch.Pin{Hash: strings.ToLower(c.Pin.ExpectedHash), Strict: c.Pin.Mode == config.PinStrict, Seen: c.Guards.Unicode == config.UnicodeRefuse}
}

// checkCatalog warns the operator if the catalog contradicts the configuration. first marks the
// first complete catalog.
func (e *Engine) checkCatalog(c *catalog.Catalog, first bool) {
	e.checkPin(c)
	e.checkNames(c, first)
}

// checkNames warns the operator about configured names that no server offers. It runs once, after
// all servers have been listed. It does not wait for a server that has failed by then; the warning
// names that server.
func (e *Engine) checkNames(c *catalog.Catalog, first bool) {
	conf := e.config.Load()
	if e.looked.Load() == conf {
		return // and the state of every server is not asked for
	}
	var absent []string
	for _, s := range e.manager.Status() {
		if !s.Listed && !s.Off() {
			absent = append(absent, s.Name)
		}
	}
	if len(absent) > 0 && !first || e.looked.Swap(conf) == conf {
		return
	}
	var o metatool.Options
	controls(conf, &o)
	own := listingPerCaller(conf)
	for _, message := range append(metatool.Unmatched(c, o.Policy, o.RateLimits, o.Cache.Allow), metatool.UnmatchedProfiles(c, o.Profiles)...) {
		if len(absent) > 0 {
			e.log.Warn(message+"; it may be of a server that has not come up", "servers", absent)
			continue
		}
		if len(own) > 0 {
			e.log.Info(message+"; it may be of a server that lists for each caller", "servers", own)
			continue
		}
		e.log.Warn(message + "; weir ls shows what there is")
	}
}

// checkPin warns the operator if the catalog differs from the pinned one.
func (e *Engine) checkPin(c *catalog.Catalog) {
	p := pinOf(e.config.Load())
	if p.Holds(c) {
		return
	}
	message := "the catalog is not the one that is pinned"
	if p.Strict {
		message += ": nothing is executed"
	}
	e.log.Warn(message+"; look at weir ls --changes, then set pin.expected_hash", "hash", c.Hash(), "expected_hash", p.Hash)
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
	Recent   []TimedChange `json:"recent,omitempty"`
	Findings []string      `json:"findings"`
	// the profiles that the caller may open
	Profiles []ProfileInfo `json:"profiles,omitempty"`
}

type pinInfo struct {
	ExpectedHash string `json:"expected_hash"`
	Mode         string `json:"mode"`
	Holds        bool   `json:"holds"`
}

// CatalogInfo describes the current catalog. With a time, it has the changes since then.
func (e *Engine) CatalogInfo(since time.Time) *CatalogInfo {
	c := e.Snapshot().Catalog
	n := Kinds(c)
	info := &CatalogInfo{
		Hash: c.Hash(), Tools: n[catalog.KindTool], Resources: n[catalog.KindResource] + n[catalog.KindTemplate], Prompts: n[catalog.KindPrompt],
		Changes: e.state.Changes(), Findings: []string{}, Partial: c.Partial(),
	}
	if !since.IsZero() {
		info.Recent = e.recent.since(since)
	}
	info.Complete = e.firsts.over() && len(info.Partial) == 0
	if pin := e.config.Load().Pin; pin.ExpectedHash != "" {
		info.Pin = &pinInfo{pin.ExpectedHash, string(pin.Mode), dispatch.Pin{Hash: strings.ToLower(pin.ExpectedHash)}.Holds(c)}
	}
	for _, f := range slices.Concat(c.Findings(), e.owners.findings(), e.Offices.findings(), e.state.Findings()) {
		info.Findings = append(info.Findings, e.clean(f.String()))
	}
	return info
}
