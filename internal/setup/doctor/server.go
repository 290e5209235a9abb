package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow"
)

// Report is the state of a gateway's servers.
type Report struct {
	// Running says that the gateway runs on its own, at URL and of this Version. Otherwise it was
	// started for the check.
	Running      bool
	URL, Version string
	Store        string // the fault of the store of its cluster, "" if that answers
	Servers      []Server
	// Findings are the catalog's.
	Findings []CatalogFinding
	// Listed are the names of tools as agents see them, if agents see them all.
	Listed []string
	// Flow has the flow labels of the tools; nil if they are not known.
	Flow *flow.Listing
}

// Server is the state of one server.
type Server struct {
	Name  string
	State string // as in package upstream
	Error string // without secrets
	Note  string
	Tools int
	// Differs is the number of its definitions that differ from weir.lock; Note says it in words.
	Differs int
	// Stderr has its newest lines, without secrets, if the caller has them.
	Stderr []string
	// Noise is a line that it printed to stdout, "" if there was none.
	Noise string
}

// CatalogFinding is a fault of a definition.
type CatalogFinding struct{ Server, Kind, Name, Text string }

var errNotProbed = errors.New("the servers were not looked at")

// lastLines is how many lines of a program's output a finding has.
const lastLines = 20

// faults are the ids of failed servers, by texts of their errors. The first match counts. The texts
// come from packages upstream, stdio, streamable and net, and tests with real failures keep them.
var faults = []struct {
	id    string
	texts []string
}{
	{"server-noise", []string{"which is for MCP messages only"}},
	{"server-document", []string{"the OpenAPI document "}},
	{"server-start", []string{"cannot start "}},
	{"server-unauthorized", []string{"(401)", "(403)"}},
	{"server-tls", []string{"x509:", "tls:", "certificate"}},
	{"server-dns", []string{"no such host", "server misbehaving", "Temporary failure in name resolution", "host name of its url has no address"}},
	{"server-exit", []string{" ended (", "its program ended", "closed its stdout"}},
	{"server-silent", []string{"did not answer initialize within", "did not answer the handshake within", "did not open its event stream within"}},
	{"server-unreachable", []string{"connection refused", "refused the connection", "connection reset", "no route to host", "network is unreachable", "i/o timeout", "EOF"}},
}

// faultOf returns the kind of finding for a server's error.
func faultOf(text string) string {
	for _, f := range faults {
		if slices.ContainsFunc(f.texts, func(part string) bool { return strings.Contains(text, part) }) {
			return f.id
		}
	}
	return "server-failed"
}

// checkServers reports servers that do not answer.
func (d *doctor) checkServers(context.Context) []Finding {
	if d.Config == nil || d.Probe == nil {
		return nil
	}
	report, err := d.probe()
	if err != nil && d.Distrust != nil {
		return nil // reported with the configuration
	}
	if err != nil {
		return []Finding{found("server-failed", "servers", "they cannot be started: %v", err).fix("%s", "Correct what the error names.")}
	}
	var list []Finding
	var late []string
	for _, s := range report.Servers {
		if d.Only == "" || s.Name == d.Only {
			list = append(list, d.ownCredentials(s, serverFindings(s))...)
		}
		if s.State == "starting" && s.Error == "" {
			late = append(late, s.Name)
		}
	}
	if len(late) < 2 || d.Only != "" {
		return list
	}
	list = slices.DeleteFunc(list, func(f Finding) bool { return f.ID == "server-starting" })
	return append(list, found("server-starting", "servers", "%s are still starting", strings.Join(late, ", ")))
}

// serverFindings judges one server.
func serverFindings(s Server) []Finding {
	thing := "server " + s.Name
	switch {
	case s.State == "disabled" || s.State == "left_out":
		return nil
	case s.State == "sign_in":
		return []Finding{found("server-sign-in", thing, "%s", s.Error).fix("Run: weir login %s", s.Name)}
	case s.Error != "":
		f := found(faultOf(s.Error), thing, "%s", s.Error)
		if f.ID == "server-exit" || f.ID == "server-failed" || f.ID == "server-silent" {
			f.Lines = s.Stderr[max(0, len(s.Stderr)-lastLines):]
		}
		return []Finding{f}
	case s.State == "starting":
		f := found("server-starting", thing, "")
		if s.Note != "" {
			f.Text = s.Note
		}
		f.Lines = s.Stderr[max(0, len(s.Stderr)-lastLines):]
		return []Finding{f}
	case s.Differs > 0:
		return []Finding{found("server-changed", thing, "%s", s.Note)}
	case s.State != "ready" && s.State != "idle":
		return []Finding{found("server-failed", thing, "is %s", s.State)}
	}
	list := []Finding{fine("server", thing, "%d tools", s.Tools)}
	if s.Noise != "" {
		list = append(list, found("server-noise", thing, "it printed %q to stdout, which is for MCP messages only; weir skips such lines, other clients fail", s.Noise))
	}
	return list
}

// ownCredentials names the headers of the configuration that a server refuses (401). With an
// Authorization header there, weir signs in nowhere, so a sign-in is no fix.
func (d *doctor) ownCredentials(s Server, list []Finding) []Finding {
	at := slices.IndexFunc(d.Config.Servers, func(c *config.Server) bool { return c.Name == s.Name })
	if at < 0 || len(d.Config.Servers[at].Headers) == 0 {
		return list
	}
	c := d.Config.Servers[at]
	path := "mcpServers." + s.Name + ".headers"
	keys := path
	for name := range c.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" || len(c.Headers) == 1 {
			keys = path + "." + name
		}
	}
	for i, f := range list {
		refused := f.ID == "server-unauthorized" && strings.Contains(s.Error, "(401)")
		if !refused && (f.ID != "server-sign-in" || !c.Authorized()) {
			continue
		}
		f = found("server-unauthorized", f.Thing, "it refuses the credential in %s (401): %s", keys, s.Error)
		fix := "Get a new credential from the server's owner, and put it into " + keys + ". Where that is ${secret:NAME}, run: weir secret set NAME"
		if c.Authorized() {
			fix += ". To sign in instead, remove the header, then run: weir login " + s.Name
		}
		list[i] = f.fix("%s", fix)
	}
	return list
}

// proxyVariables are the variables by which programs find a proxy for HTTP.
var proxyVariables = []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"}

// checkProxy reports a proxy that would get requests for this machine.
func (d *doctor) checkProxy(context.Context) []Finding {
	at := slices.IndexFunc(proxyVariables, func(name string) bool { return d.env.Getenv(name) != "" })
	if at < 0 || excepted(d.env.Getenv("NO_PROXY")) || excepted(d.env.Getenv("no_proxy")) {
		return nil
	}
	return []Finding{found("server-proxy", "proxy", "%s is set, and NO_PROXY does not have 127.0.0.1: clients and servers send what is for weir to the proxy", proxyVariables[at])}
}

// excepted reports whether a list of hosts without proxy has this machine's loopback address.
func excepted(list string) bool {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for host := range strings.SplitSeq(list, ",") {
		host = strings.TrimSpace(host)
		if prefix, err := netip.ParsePrefix(host); err == nil && prefix.Contains(loopback) {
			return true
		}
		if name, _, ok := strings.Cut(host, ":"); ok {
			host = name
		}
		if host == "*" || host == loopback.String() {
			return true
		}
	}
	return false
}
