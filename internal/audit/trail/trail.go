package trail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/audit/syslog"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// Open opens the configured audit log; it returns nil if none is configured. version is the version of the program. The
// caller closes the log, or passes it to New.
func Open(ctx context.Context, c *config.Config, version string, log *slog.Logger) (*audit.Log, error) {
	if c.Audit.Dir == "" {
		return nil, nil
	}
	return open(ctx, &c.Audit, c.Audit.Required, version, log)
}

func open(ctx context.Context, a *config.Audit, required bool, version string, log *slog.Logger) (*audit.Log, error) {
	secret := a.Key.Reveal()
	if secret == "" {
		var err error
		if secret, err = place.MakeKey(ctx, filepath.Join(a.Dir, audit.KeyName)); err != nil {
			return nil, part.Setupf("audit.dir: %w", err)
		}
	}
	keys, err := audit.KeysFrom(secret)
	if err != nil {
		return nil, part.Setupf("audit.key: %w", err)
	}
	sink, err := openSink(&a.Syslog, version, log)
	if err != nil {
		return nil, err
	}
	l, err := audit.Open(audit.Options{Dir: a.Dir, Keys: keys, Required: required, Keep: a.Kept(), MaxTotal: int64(a.MaxBytes), Logger: log, Sink: sink})
	if err != nil {
		if sink != nil {
			sink.Close()
		}
		return nil, part.Setupf("audit.dir: %w", err)
	}
	return l, nil
}

// openSink returns what sends records to the configured collector, nil without one.
func openSink(s *config.Syslog, version string, log *slog.Logger) (audit.Sink, error) {
	network, at := s.Network()
	if network == "" {
		return nil, nil
	}
	o := syslog.Options{Network: network, Address: at, OCSF: s.Format == "ocsf", Version: version, Logger: log, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, part.Setupf("audit.syslog.ca: %w", err)
		}
		if o.TLS.RootCAs = x509.NewCertPool(); !o.TLS.RootCAs.AppendCertsFromPEM(text) {
			return nil, part.Setupf("audit.syslog.ca: %s has no certificate in PEM", s.CA)
		}
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, part.Setupf("audit.syslog.cert: %w", err)
		}
		o.TLS.Certificates = []tls.Certificate{pair}
	}
	return syslog.New(o), nil
}

// Auditor tells the audit log of what does not pass the gateway's meta-tools. Without a log it tells
// nothing. It is safe for concurrent use.
type Auditor struct {
	calls *calls.Recorder // nil without a log
	tools catalog.ToolIDs
	needs Needs

	mu         sync.Mutex // guards the fields below
	allowed    float64    // refusals of strangers that may be recorded now
	at         time.Time  // when allowed was counted
	unrecorded int64      // refusals that were not recorded
}

// Refusals of strangers that are recorded: so many at once, and one a second. The others are counted.
const refusalBurst = 60

// Needs is what an Auditor asks about calls.
type Needs struct {
	// Redact removes secrets from JSON.
	Redact func(raw []byte) []byte
	// Server returns the configured name of a server for its name at /mcps.
	Server func(name string) string
	// Catalog returns all entries that may exist for the caller of a request.
	Catalog func(ctx context.Context) *catalog.Catalog
}

// New returns an Auditor that tells a log, or nothing without one. The caller closes it, and so the log.
func New(l *audit.Log, c *config.Config, n Needs) *Auditor {
	return &Auditor{calls: calls.New(l, audit.Form(c.Audit.Args), n.Redact), needs: n, allowed: refusalBurst}
}

// Calls returns what records the calls of meta-tools, nil without a log.
func (a *Auditor) Calls() *calls.Recorder { return a.calls }

// Enabled reports whether there is an audit log.
func (a *Auditor) Enabled() bool { return a.calls != nil }

// Page returns a part of the audit log, which must be there.
func (a *Auditor) Page(ctx context.Context, q audit.Query) (audit.Page, error) {
	return a.calls.Log().Page(ctx, q)
}

// unaudited are methods that only look at what there is, or belong to the session.
var unaudited = []string{
	"initialize", "ping", "server/discover", "logging/setLevel", "resources/unsubscribe", "tools/list", "resources/list", "resources/templates/list",
	"prompts/list", "tasks/list",
}

// Begin implements passthrough.Auditor.
func (a *Auditor) Begin(ctx context.Context, upstream string, r *mcp.Request) (passthrough.Recorded, error) {
	if a.calls == nil || r.IsNotification() || slices.Contains(unaudited, r.Method) {
		return nil, nil
	}
	if err := unambiguous(r); err != nil {
		return nil, err
	}
	about := calls.Call{Request: r, Server: a.needs.Server(upstream)}
	switch f := r.Fields(); r.Method {
	case "tools/call":
		about.ToolID = a.tools.ID(a.needs.Catalog(ctx), about.Server, rawjson.Text(f.Name))
		if about.ToolID == "" {
			about.ToolID = upstream + ":" + rawjson.Text(f.Name) // outside of the catalog
		}
		about.Args = f.Arguments
	case "prompts/get":
		about.ToolID, about.Args = rawjson.Text(f.Name), f.Arguments
	case "resources/read", "resources/subscribe":
		about.Args = f.URI
	default:
		about.Args = r.Params
	}
	open, err := a.calls.Begin(ctx, &about)
	if err != nil {
		return nil, err
	}
	return &recordedCall{open: open}, nil
}

var _ passthrough.Auditor = (*Auditor)(nil)

// Refused records a request that a guard refused. Strangers can send any number of them, so that
// only some are recorded, with the number of the others.
func (a *Auditor) Refused(r *http.Request, status int, err error) {
	if a.calls == nil {
		return
	}
	now := time.Now()
	a.mu.Lock()
	a.allowed = min(refusalBurst, a.allowed+now.Sub(a.at).Seconds())
	a.at = now
	if a.allowed < 1 {
		a.unrecorded++
		a.mu.Unlock()
		return
	}
	a.allowed--
	count := a.unrecorded
	a.unrecorded = 0
	a.mu.Unlock()
	out := calls.Caller(r.Context(), audit.Refusal)
	out.Principal = "" // a stranger
	if ip, known := address.Source(r.Header, r.RemoteAddr); known {
		out.IP = ip.String()
	}
	kind, _ := mcp.KindOf(err)
	out.Method, out.Outcome, out.Detail, out.Count = "http "+r.Method, kind.String(), r.URL.Path, count
	a.calls.Log().Add(out)
}

// Operated records what an operator did: kind is audit.Approval or audit.Role.
func (a *Auditor) Operated(ctx context.Context, kind audit.Kind, decision, server, tool, detail string) {
	if a.calls == nil {
		return
	}
	out := calls.Caller(ctx, kind)
	out.Decision, out.Server, out.ToolID, out.Detail = decision, server, tool, detail
	a.calls.Log().Add(out)
}

// Reached records that a server in a sandbox reached a host, or was refused it.
func (a *Auditor) Reached(server, host string, refused error) {
	if a.calls == nil {
		return
	}
	out := &audit.Record{Kind: audit.Network, Server: server, Detail: host, Decision: "allow"}
	if refused != nil {
		out.Decision = "deny"
	}
	a.calls.Log().Add(out)
}

// Offered records that a caller made a URL of a handle.
func (a *Auditor) Offered(ctx context.Context, handle, url string) {
	if a.calls == nil {
		return
	}
	out := calls.Caller(ctx, audit.View)
	out.Method, out.Outcome, out.Handle = "s2sp/offer", calls.OK, handle
	out.Detail = "token " + telemetry.SessionTag(url[strings.LastIndexByte(url, '/')+1:])
	a.calls.Log().Add(out)
}

// Prepare implements part.Part.Prepare.
func (a *Auditor) Prepare(r part.Reload) (apply func(), err error) {
	return func() {
		a.Configured(r.Next, slices.Concat(r.Change.Added, r.Change.Removed, r.Change.Changed, r.Change.Other))
	}, nil
}

// Configured records a configuration that is applied, by the hash of its file.
func (a *Auditor) Configured(c *config.Config, changed []string) {
	if a.calls == nil {
		return
	}
	sum := c.Sum()
	a.calls.Log().Add(&audit.Record{Kind: audit.Config, Result: "sha256:" + hex.EncodeToString(sum[:]), Detail: strings.Join(changed, ", ")})
}

// Event records changes of definitions.
func (a *Auditor) Event(e telemetry.Event) {
	if a.calls == nil || e.Name != telemetry.CatalogLoaded && e.Name != telemetry.CatalogRefresh {
		return
	}
	a.calls.Log().Add(&audit.Record{Kind: audit.Definition, Server: e.Upstream, Result: "catalog:" + e.Hash, Detail: e.Detail})
}

// Close records what is not told yet, and closes the log.
func (a *Auditor) Close() {
	if a.calls == nil {
		return
	}
	a.mu.Lock()
	count := a.unrecorded
	a.unrecorded = 0
	a.mu.Unlock()
	if count > 0 {
		a.calls.Log().Add(&audit.Record{Kind: audit.Refusal, Outcome: "unauthorized", Count: count, Detail: "further requests"})
	}
	a.calls.Log().Close()
}
