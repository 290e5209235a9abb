package passthrough

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

//go:embed web/status.html
var statusSource string

var statusPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("status").Parse(statusSource))
})

const (
	probeTimeout = 2 * time.Second
	// probeKept is how long an answer is reused, so that many viewers do not cause more requests to
	// agents than one.
	probeKept    = 2 * time.Second
	probesAtOnce = 16
	maxProbe     = 64 << 10
	// maxProbes bounds the stored answers.
	maxProbes = 4096
)

// AgentStatus is one agent in /status/data.
type AgentStatus struct {
	Name string `json:"name"`
	// Health is the agent's answer ("ok", "stopping"), or "unreachable" without one. For a server
	// that is not an agent server it is the state of its upstream.
	Health    string  `json:"health"`
	State     string  `json:"state"`
	Uptime    float64 `json:"uptime"` // seconds: the agent's own, or of State
	Queue     *Queue  `json:"queue,omitempty"`
	Source    string  `json:"source"` // how the router knows it
	Transport string  `json:"transport"`
	Endpoint  string  `json:"endpoint"` // its path at this router
	Tools     int     `json:"tools"`
	Calls     int64   `json:"calls"`
	Errors    int64   `json:"errors"`
	InFlight  int64   `json:"inFlight"`
	Restarts  int64   `json:"restarts"`
	Error     string  `json:"error,omitempty"`

	// Probe is the URL of an agent server's health. It is "" for other servers, and for one that
	// runs elsewhere without a configured probe.
	Probe string `json:"-"`
	// ProbeHeader has the headers of the probe. Its keys are canonical.
	ProbeHeader http.Header `json:"-"`
	// ProbeTransport carries the probe; nil means StatusOptions.Transport.
	ProbeTransport http.RoundTripper `json:"-"`
}

// Queue is the task queue of an agent server.
type Queue struct {
	Queued      int `json:"queued"`
	Running     int `json:"running"`
	Concurrency int `json:"concurrency"`
}

// StatusOptions configures a Status.
type StatusOptions struct {
	// Agents returns the agents that a principal may reach, without asking them. It is called
	// concurrently.
	Agents func(principal string) []AgentStatus
	// Name and Version identify this program, and Started is its start time.
	Name, Version string
	Started       time.Time
	// Transport carries the probes; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Logger gets failures; nil discards them.
	Logger *slog.Logger
}

// Status reports the state of each agent: Page is for people, Data for programs. It is safe for
// concurrent use and starts nothing that outlives a request.
type Status struct {
	o StatusOptions

	mu     sync.Mutex // guards below
	probes map[string]*probe
}

// probe is the latest answer of one agent.
type probe struct {
	mu     sync.Mutex // held while the agent is asked; guards below
	at     time.Time
	health string
	uptime float64 // negative if unknown
	queue  *Queue
	err    string
}

// NewStatus returns a Status.
func NewStatus(o StatusOptions) *Status {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Status{o: o, probes: map[string]*probe{}}
}

// Page serves the page. It contains no data, so loading it reveals nothing; it requests Data with
// the token that a person enters.
func (s *Status) Page(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%[1]s'; script-src 'nonce-%[1]s'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", nonce))
	if err := statusPage().Execute(w, struct{ Nonce, Name, Version string }{nonce, s.o.Name, s.o.Version}); err != nil {
		s.o.Logger.Debug("the page was not sent", "err", err)
	}
}

// Data serves the data.
func (s *Status) Data(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	agents := s.o.Agents(guard.Principal(r.Context()))
	s.ask(r.Context(), agents)
	out := struct {
		Name    string                 `json:"name"`
		Version string                 `json:"version"`
		Status  string                 `json:"status"`
		Uptime  float64                `json:"uptime"` // seconds
		Agents  map[string]AgentStatus `json:"agents"`
	}{s.o.Name, s.o.Version, "ok", round(time.Since(s.o.Started).Seconds()), make(map[string]AgentStatus, len(agents))}
	for _, a := range agents {
		if a.Health != "ok" && a.Health != "starting" {
			out.Status = "degraded"
		}
		out.Agents[a.Name] = a
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if raw, err := json.Marshal(out); err == nil { // weir's own types do not fail
		_, _ = w.Write(append(visible.JSON(raw), '\n')) // the reader may be gone
	}
}

func getOrHead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: GET, HEAD", r.Method))
	return false
}

func round(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

// ask asks the agents for their state, and fills in the answers.
func (s *Status) ask(ctx context.Context, agents []AgentStatus) {
	var all sync.WaitGroup
	slots := make(chan struct{}, probesAtOnce)
	for i := range agents {
		a := &agents[i]
		if a.Health = a.State; a.State == "ready" || a.State == "idle" {
			a.Health = "ok"
		}
		if a.Probe == "" {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			transport := a.ProbeTransport
			if transport == nil {
				transport = s.o.Transport
			}
			s.probeOf(a.Probe).fill(ctx, transport, a)
		})
	}
	all.Wait()
}

func (s *Status) probeOf(url string) *probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.probes[url]
	if p == nil {
		if len(s.probes) >= maxProbes {
			clear(s.probes)
		}
		p = &probe{}
		s.probes[url] = p
	}
	return p
}

// fill adds an agent's answer, and asks the agent first if the last answer is old.
func (p *probe) fill(ctx context.Context, transport http.RoundTripper, a *AgentStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || time.Since(p.at) > probeKept {
		p.ask(ctx, transport, a)
		if ctx.Err() != nil {
			p.at = time.Time{} // the next viewer must not see a failure
		}
	}
	a.Health = p.health
	if p.uptime >= 0 {
		a.Uptime = p.uptime
	}
	a.Queue = p.queue
	if p.err != "" {
		a.Error = p.err
	}
}

func (p *probe) ask(ctx context.Context, transport http.RoundTripper, a *AgentStatus) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p.health, p.uptime, p.queue, p.err = "unreachable", -1, nil, ""
	defer func() { p.at = time.Now() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Probe, nil)
	if err != nil {
		p.err = "its URL cannot be asked"
		return
	}
	if a.ProbeHeader != nil {
		req.Header = a.ProbeHeader.Clone()
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		p.err = transportFailure(a.Name, err).Message
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	status := rawjson.Text(rawjson.Get(body, "status"))
	if err != nil || !json.Valid(body) || status == "" {
		// The agent is there, but reports no state.
		p.health = a.Health
		return
	}
	p.health = clip(status)
	var told struct {
		Uptime *float64
		Queue  *Queue
	}
	if json.Unmarshal(body, &told) == nil {
		p.queue = told.Queue
		if told.Uptime != nil {
			p.uptime = *told.Uptime
		}
	}
}
