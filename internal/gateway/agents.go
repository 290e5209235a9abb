package gateway

import (
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/passthrough"
)

// Agents lists the servers that a principal may call, with the state that is known without
// contacting them.
func (v *Views) Agents(principal string) []passthrough.AgentStatus {
	agents := v.agents()
	sources := agents.Sources()
	h := v.health()
	var list []passthrough.AgentStatus
	for _, s := range v.manager.Status() {
		if s.Off() || !v.config().Auth.Reaches(principal, s.Name) {
			continue
		}
		up := h.Upstreams[s.Name]
		one := passthrough.AgentStatus{
			Name: s.Name, State: up.State, Source: "config", Transport: up.Transport, Endpoint: "/mcps/" + url.PathEscape(s.Name) + "/mcp",
			Tools: up.Tools, Calls: up.Calls, Errors: up.Errors, InFlight: up.InFlight, Restarts: up.Restarts, Error: up.Error,
		}
		if source, ok := sources[s.Name]; ok {
			one.Source = string(source)
		}
		if !s.Since.IsZero() {
			one.Uptime = math.Round(time.Since(s.Since).Seconds()*1000) / 1000
		}
		if u, ok := v.manager.Upstream(s.Name); ok {
			one.Probe, one.ProbeHeader, one.ProbeTransport = probeURL(u.Config()), probeHeader(u.Config()), agents.Registered(s.Name)
		}
		list = append(list, one)
	}
	return list
}

// probeURL returns the status URL of a server: the one of an agent server, or one on this machine.
func probeURL(s *config.Server) string {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil || s.Type == mcpserver.TransportSSE || !s.Agent && !address.Loopback(u.Hostname()) {
		return ""
	}
	return u.ResolveReference(&url.URL{Path: "healthz"}).String()
}

// probeHeader returns the header with the server's configured token, if any. Without it, some
// servers report only that they are alive.
func probeHeader(s *config.Server) http.Header {
	h := http.Header{}
	for name, value := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			h.Set(name, value.Reveal())
		}
	}
	return h
}
