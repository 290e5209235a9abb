package definitions

import (
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/filewatch"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/upstream"
)

// A Lock compares the servers' definitions with weir.lock: as they are now and as an operator has accepted
// them. It is safe for concurrent use.
type Lock struct {
	*lockfile.Keeper
	needs   Needs
	path    string
	running sync.WaitGroup

	mu  sync.Mutex         // guards below
	end context.CancelFunc // nil until the file is followed
}

// Needs is what a Lock stands on.
type Needs struct {
	Log     *slog.Logger
	Config  func() *config.Config    // the current one
	Servers func() *upstream.Manager // whose definitions they are
	Sink    lockfile.Sink            // gets what may be shown
	// First returns the definitions that the gateways of the store saw first, nil if there are none.
	First func(server string) *primitive.Listing
	// Catalog returns the current catalog.
	Catalog func() *catalog.Catalog
	// Places returns the catalog servers that a name at /mcps stands for.
	Places func(name string) []metatool.Place
	Tell   func(telemetry.Event)
	// Conceal removes credentials from a listing, and Clean removes secrets from a text.
	Conceal func(primitive.Listing) primitive.Listing
	Clean   func(text string) string
	// Shell is set for a shell command, which follows no file.
	Shell bool
}

// New returns the lock next to the file of a configuration. It does not follow the file before Start.
func New(c *config.Config, n Needs) *Lock {
	d := &Lock{needs: n, path: lockPath(c)}
	d.Keeper = lockfile.New(lockfile.Options{
		Path: d.path, Logger: n.Log, Sink: n.Sink, Conceal: n.Conceal,
		Mode:  func(server string) lockfile.Mode { return lockfile.Mode(n.Config().TrustOf(server)) },
		First: n.First, Endpoint: d.endpoint, Neighbours: d.neighbours, Changed: d.changed, Own: d,
	})
	return d
}

var _ lockfile.OwnLists = (*Lock)(nil)

// OwnListings implements lockfile.OwnLists.
func (d *Lock) OwnListings(server string) []*primitive.Listing {
	return d.needs.Servers().OwnListings(server)
}

// JudgeOwnLists implements lockfile.OwnLists.
func (d *Lock) JudgeOwnLists(server string) { d.needs.Servers().JudgeOwnLists(server) }

// lockPath returns the path of the lock of a configuration, "" if the configuration is no file.
func lockPath(c *config.Config) string {
	if c.Path() == "" {
		return ""
	}
	abs, err := filepath.Abs(c.Path())
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(abs), lockfile.Name)
}

// Start follows the file from the first configuration on that sets trust.
func (d *Lock) Start(c *config.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.path == "" || d.end != nil || d.needs.Shell || !c.KeepsLock() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.end = cancel
	d.running.Go(func() {
		if err := filewatch.Watch(ctx, d.path, d.Follow); err != nil {
			d.needs.Log.Warn("changes of weir.lock are not seen any more; restart weir to apply them", "err", err)
		}
	})
}

// Prepare implements part.Part.Prepare.
func (d *Lock) Prepare(r part.Reload) (apply func(), err error) {
	return func() {
		d.Start(r.Next)
		if r.Now.Trust != r.Next.Trust { // only servers of mcpServers start again
			d.Again()
		}
	}, nil
}

// Close ends the goroutine of Start.
func (d *Lock) Close() {
	d.mu.Lock()
	if d.end != nil {
		d.end()
	}
	d.mu.Unlock()
	d.running.Wait()
}

// endpoint returns where a server is reached, without secrets. A program below the folder of the lock
// has a relative path, so that the lock is the same on each machine.
func (d *Lock) endpoint(server string) lockfile.Endpoint {
	u, ok := d.needs.Servers().Upstream(server)
	if !ok {
		return lockfile.Endpoint{}
	}
	s := u.Config()
	var at lockfile.Endpoint
	if s.Command != "" {
		words := append([]string{s.Command}, s.Args...)
		for i, word := range words {
			words[i] = relative(filepath.Dir(d.path), word)
		}
		at.Command = strings.Join(words, " ")
	}
	if parsed, err := url.Parse(s.URL); err == nil && s.URL != "" {
		parsed.User, parsed.RawQuery, parsed.Fragment = nil, "", ""
		at.URL = parsed.String()
	}
	secrets := redact.New(append(redact.InArgs(s.Args), redact.InURL(s.URL)...))
	at.Command, at.URL = d.needs.Clean(secrets.Replace(at.Command)), d.needs.Clean(secrets.Replace(at.URL))
	return at
}

// relative returns the path of a file below a folder as the folder has it, and other texts unchanged.
func relative(dir, text string) string {
	if !filepath.IsAbs(text) {
		return text
	}
	rel, err := filepath.Rel(dir, text)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return text
	}
	return "./" + filepath.ToSlash(rel)
}

// neighbours returns the tools of all servers.
func (d *Lock) neighbours() (all []lockfile.Neighbour) {
	for _, e := range d.needs.Catalog().Entries() {
		if e.Kind == primitive.KindTool {
			all = append(all, lockfile.Neighbour{Server: e.Upstream, ID: e.Short, Name: e.RawName})
		}
	}
	return all
}

// changed emits an event about definitions that differ from the lock.
func (d *Lock) changed(server string, fresh []lockfile.Difference) {
	const most = 10
	var lines []string
	for i, one := range fresh {
		if i == most {
			lines = append(lines, "and more")
			break
		}
		lines = append(lines, one.String())
	}
	d.needs.Tell(telemetry.Event{Time: time.Now(), Name: telemetry.DefinitionsDiffer, Upstream: server, Detail: d.needs.Clean(strings.Join(lines, "; "))})
}
