package web

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/policy"
)

// Patterns of the endpoints of profiles. ssePath is for clients of the older transport, which post
// their messages to the same path.
const (
	profilePath = "/mcp/{profile}"
	ssePath     = "/sse/{profile}"
)

// profiles are the endpoints of profiles. Each has a streamable.Server, and so sessions of its own:
// the session of one profile is unknown at another and at /mcp. It is safe for concurrent use.
//
//	/mcp/NAME ─▶ guard ─▶ a profile, open to the caller? ─┬─▶ streamable.Server of the profile, weir attach ─▶ front
//	                                                      └─▶ router: the answer for an unknown path
//	/sse/NAME ─▶ guard ─▶ likewise ─▶ sse.Server ─▶ front
type profiles struct {
	start func(name string) *endpoint
	log   *slog.Logger

	mu      sync.Mutex // guards below
	of      map[string]*endpoint
	closing bool
	leaving sync.WaitGroup // ends of removed profiles; Add under mu

	hurry  context.Context // ends when Shutdown does not wait for leaving any more
	cutOff context.CancelFunc
}

func newProfiles(start func(name string) *endpoint, log *slog.Logger) *profiles {
	p := &profiles{start: start, log: log, of: map[string]*endpoint{}}
	p.hurry, p.cutOff = context.WithCancel(context.Background())
	return p
}

// profileDrain bounds how long calls of a removed profile may go on.
const profileDrain = 10 * time.Second

// follow replaces the endpoints by the endpoints of the given profiles. The sessions of removed profiles end.
func (p *profiles) follow(list []*config.Profile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return
	}
	for name, s := range p.of {
		if slices.ContainsFunc(list, func(c *config.Profile) bool { return c.Name == name }) {
			continue
		}
		delete(p.of, name)
		p.leaving.Go(func() {
			ctx, cancel := context.WithTimeout(p.hurry, profileDrain)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				p.log.Warn("the sessions of a removed profile did not end", "profile", name, "err", err)
			}
		})
	}
	for _, c := range list {
		if p.of[c.Name] == nil {
			p.of[c.Name] = p.start(c.Name)
		}
	}
}

// find returns the endpoint of a profile, or nil.
func (p *profiles) find(name string) *endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[name]
}

// serve serves a path with the name of a profile. at serves requests to the endpoint of a profile, and next
// answers for profiles that do not exist for the caller.
func (p *profiles) serve(opens func(id *identity.Identity, name string) bool, at func(s *endpoint, w http.ResponseWriter, r *http.Request), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("profile")
		s := p.find(name)
		if s == nil || !opens(identity.From(r.Context()), name) {
			next.ServeHTTP(w, r)
			return
		}
		if r, ok := inMode(w, r.WithContext(policy.AtProfile(r.Context(), name))); ok {
			at(s, w, r)
		}
	})
}

// Shutdown ends all endpoints, as streamable.Server.Shutdown does.
func (p *profiles) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	var all sync.WaitGroup
	failed := make(chan error, len(p.of))
	for _, s := range p.of {
		all.Go(func() { failed <- s.Shutdown(ctx) })
	}
	p.mu.Unlock()
	all.Wait()
	stop := context.AfterFunc(ctx, p.cutOff)
	p.leaving.Wait()
	stop()
	p.cutOff()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// mountProfiles serves the profiles of a configuration. front is the guard of /mcp, which also knows
// clients of weir attach. A token for single agents opens no profile.
func (f *Server) mountProfiles(mux *http.ServeMux, front, closed *guard.Guard, c *config.Config) {
	f.profiles.follow(c.Profiles)
	if len(c.Profiles) == 0 {
		return
	}
	opens := func(id *identity.Identity, name string) bool {
		return !c.Auth.Scoped(id.Principal) && policy.OpensProfile(c, name, id)
	}
	attachable := func(s *endpoint, w http.ResponseWriter, r *http.Request) {
		if r, ok := f.attached.pass(w, r); ok {
			s.front.ServeHTTP(w, r)
		}
	}
	loop := gate{"loop", f.gateway.Agents.Loops.Pass}
	mux.Handle(profilePath, &gated{[]gate{loop, {"guard", front.Pass}}, f.profiles.serve(opens, attachable, f.router)})
	overSSE := func(_ *endpoint, w http.ResponseWriter, r *http.Request) { f.sse.ServeHTTP(w, r) }
	mux.Handle(ssePath, &gated{[]gate{loop, {"guard", closed.Pass}}, f.profiles.serve(opens, overSSE, http.NotFoundHandler())})
}
