package agentserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
)

const (
	// registerPath is the router's endpoint for agents, below its base URL.
	registerPath = "/agents"

	registerTimeout = 5 * time.Second
	leaveTimeout    = 2 * time.Second
	firstRetry      = time.Second
	maxRetry        = 30 * time.Second
	defaultLease    = 30 * time.Second
	minHeartbeat    = 100 * time.Millisecond
)

// registration keeps an agent known to its router; see the package comment for
// the protocol.
type registration struct {
	s        *Server
	url      string
	instance string
	first    time.Duration // before the first retry
	body     []byte
	client   *http.Client
	secrets  []string // the router's latest ones
}

func newRegistration(s *Server, addr net.Addr) (*registration, error) {
	base, err := url.Parse(s.o.Router)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("agent %q: the router %q must be an http or https URL such as http://localhost:8088", s.name, clip(s.o.Router))
	}
	r := &registration{s: s, url: strings.TrimSuffix(base.String(), "/") + registerPath, instance: rand.Text(), first: firstRetry}
	told := map[string]any{"name": s.name, "instance": r.instance, "pid": os.Getpid(), "health": "/health", "server": s.info}
	if s.o.Advertise != "" {
		told["url"] = s.o.Advertise
	} else if _, port, err := net.SplitHostPort(addr.String()); err == nil {
		if n, err := strconv.Atoi(port); err == nil {
			told["port"] = n
		}
	}
	if r.body, err = json.Marshal(told); err != nil {
		return nil, err
	}
	// The token must not follow a redirect to another server.
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConns: 1, IdleConnTimeout: idleTimeout, Proxy: nil}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return r, nil
}

// run registers, again and again, until ctx ends, and then leaves.
func (r *registration) run(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	retry := r.first
	registered, failing := false, false
	for {
		lease, err := r.send(ctx, http.MethodPost, r.url, r.body, registerTimeout)
		next := lease / 3
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !failing {
				r.s.log.Warn("the agent is not registered with its router; it tries again", "agent", r.s.name, "router", r.s.o.Router, "err", err)
			}
			failing, next = true, retry
			retry = min(2*retry, maxRetry)
		default:
			if failing || !registered {
				r.s.log.Info("registered with the router", "agent", r.s.name, "router", r.s.o.Router, "lease", lease)
			}
			registered, failing, retry = true, false, r.first
		}
		select {
		case <-ctx.Done():
			// Send it even if it is uncertain that the router knows the agent.
			at := r.url + "/" + url.PathEscape(r.s.name) + "?instance=" + r.instance
			if _, err := r.send(context.WithoutCancel(ctx), http.MethodDelete, at, nil, leaveTimeout); err != nil && registered {
				r.s.log.Warn("the router was not told that the agent ends; its lease runs out", "agent", r.s.name, "err", err)
			}
			return
		case <-time.After(max(next, minHeartbeat)):
		}
	}
}

// maxSecrets bounds the secrets of a router. A cluster of routers whose key changes has two.
const maxSecrets = 4

// adopt makes the agent accept tokens that are signed with one of the router's secrets.
func (r *registration) adopt(secrets []string) {
	secrets = secrets[:min(len(secrets), maxSecrets)]
	if secrets[0] == "" || slices.Equal(secrets, r.secrets) || r.s.required != nil {
		return
	}
	var all []*invocation.Verifier
	for _, secret := range secrets {
		if i := slices.Index(r.secrets, secret); i >= 0 {
			all = append(all, (*r.s.router.Load())[i]) // it knows which tokens were used
			continue
		}
		v, err := invocation.NewVerifier(r.s.name, []byte(secret))
		if err != nil {
			r.s.log.Warn("the router's secret cannot be used; it is not known on whose behalf requests are", "agent", r.s.name, "err", err)
			return
		}
		all = append(all, v)
	}
	r.secrets = secrets
	r.s.router.Store(&all)
}

// send makes one request and returns the lease.
func (r *registration) send(ctx context.Context, method, at string, body []byte, timeout time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.s.o.RouterToken != "" {
		req.Header.Set("Authorization", "Bearer "+r.s.o.RouterToken)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, err
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return 0, fmt.Errorf("the router refuses the agent's token (%s); it is given with AGENT_TOKEN", resp.Status)
	case resp.StatusCode == http.StatusConflict:
		return 0, fmt.Errorf("another agent is registered as %q; give this one another name", r.s.name)
	case resp.StatusCode/100 != 2:
		status := resp.Status
		if text := rawjson.Text(rawjson.GetPath(answer, "error", "message")); text != "" {
			status += ": " + clip(text)
		}
		return 0, fmt.Errorf("the router answered %s", status)
	}
	var told struct {
		LeaseMs    int64 `json:"leaseMs"`
		Invocation struct {
			Secret string   `json:"secret"`
			Others []string `json:"others"`
		} `json:"invocation"`
	}
	if json.Unmarshal(answer, &told) != nil || told.LeaseMs <= 0 {
		return defaultLease, nil
	}
	r.adopt(append([]string{told.Invocation.Secret}, told.Invocation.Others...))
	return min(time.Duration(told.LeaseMs)*time.Millisecond, 24*time.Hour), nil
}
