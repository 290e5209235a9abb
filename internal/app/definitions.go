package app

import (
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/filewatch"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/upstream"
)

// Definitions are the servers' definitions as they are now and as weir.lock has them. Its methods are
// safe for concurrent use.
//
//	upstream.Manager ─▶ lockfile.Keeper ─▶ catalog.Live ─▶ /mcp
//	                          ▲      └─▶ gates ─▶ /mcps/NAME/mcp
//	    weir.lock ─▶ filewatch┘
type Definitions struct {
	*lockfile.Keeper
	manager *upstream.Manager // set before start
	catalog *Catalog
	judge   *judge
	shell   bool // of a shell command, which follows no file
	tell    func(telemetry.Event)
	clean   func(text string) string
	log     *slog.Logger
	path    string
	running sync.WaitGroup

	mu  sync.Mutex         // guards below
	end context.CancelFunc // nil until the file is followed
}

func newDefinitions(e *Engine, c *config.Config) *Definitions {
	d := &Definitions{catalog: e.Catalog, judge: e.Views.judge, shell: e.opts.Shell, tell: e.Catalog.tell, clean: e.secrets.clean, log: e.log, path: lockPath(c)}
	d.Keeper = lockfile.New(lockfile.Options{
		Path: d.path, Logger: e.log, Sink: firsts{e.Catalog.listings, e.Catalog.live}, Conceal: e.secrets.listing,
		Mode:  func(server string) lockfile.Mode { return lockfile.Mode(e.config.Load().TrustOf(server)) },
		First: e.Catalog.listings.agreed, Endpoint: d.endpoint, Neighbours: d.neighbours, Changed: d.changed, Own: d,
	})
	return d
}

var _ lockfile.OwnLists = (*Definitions)(nil)

// OwnListings implements lockfile.OwnLists.
func (d *Definitions) OwnListings(server string) []*primitive.Listing {
	return d.manager.OwnListings(server)
}

// JudgeOwnLists implements lockfile.OwnLists.
func (d *Definitions) JudgeOwnLists(server string) { d.manager.JudgeOwnLists(server) }

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

// start follows the file from the first configuration on that sets trust.
func (d *Definitions) start(c *config.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.path == "" || d.end != nil || d.shell || !c.KeepsLock() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.end = cancel
	d.running.Go(func() {
		if err := filewatch.Watch(ctx, d.path, d.Follow); err != nil {
			d.log.Warn("changes of weir.lock are not seen any more; restart weir to apply them", "err", err)
		}
	})
}

// prepare implements part.Part.Prepare.
func (d *Definitions) prepare(r part.Reload) (apply func(), err error) {
	return func() {
		d.start(r.Next)
		if r.Now.Trust != r.Next.Trust { // only servers of mcpServers start again
			d.Again()
		}
	}, nil
}

// close ends the goroutine of start.
func (d *Definitions) close() {
	d.mu.Lock()
	if d.end != nil {
		d.end()
	}
	d.mu.Unlock()
	d.running.Wait()
}

// endpoint returns where a server is reached, without secrets. A program below the folder of the lock
// has a relative path, so that the lock is the same on each machine.
func (d *Definitions) endpoint(server string) lockfile.Endpoint {
	u, ok := d.manager.Upstream(server)
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
	at.Command, at.URL = d.clean(secrets.Replace(at.Command)), d.clean(secrets.Replace(at.URL))
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
func (d *Definitions) neighbours() (all []lockfile.Neighbour) {
	for _, e := range d.catalog.Snapshot().Catalog.Entries() {
		if e.Kind == primitive.KindTool {
			all = append(all, lockfile.Neighbour{Server: e.Upstream, ID: e.Short, Name: e.RawName})
		}
	}
	return all
}

// changed emits an event about definitions that differ from the lock.
func (d *Definitions) changed(server string, fresh []lockfile.Difference) {
	const most = 10
	var lines []string
	for i, one := range fresh {
		if i == most {
			lines = append(lines, "and more")
			break
		}
		lines = append(lines, one.String())
	}
	d.tell(telemetry.Event{Time: time.Now(), Name: telemetry.DefinitionsDiffer, Upstream: server, Detail: d.clean(strings.Join(lines, "; "))})
}

// complete adds to the state of a server what the lock says of it.
func (d *Definitions) complete(h *Health, server string) {
	s, u := d.Summary(server), h.Upstreams[server]
	u.Differs, u.Held = s.Differs, s.Held
	if s.Note != "" && (u.Note == "" || s.Refused) {
		u.Note = s.Note
	}
	if s.Refused && u.Error == "" {
		u.State = StateRefused
		h.Status = StatusDegraded
	}
	h.Upstreams[server] = u
}

// StateRefused is the state of a server that runs and is not served: its definitions differ from
// weir.lock, and trust is refuse.
const StateRefused = lockfile.StateRefused
