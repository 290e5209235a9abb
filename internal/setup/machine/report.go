package machine

import (
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/internal/text/token"
)

// LastOutput returns what the last program of a server that wrote anything has written.
func LastOutput(lines []serverlog.Line) (out []string) {
	ended := false // the program that wrote the lines so far
	for _, line := range lines {
		switch {
		case line.Mark:
			ended = true
		case ended:
			out, ended = []string{line.Text}, false
		default:
			out = append(out, line.Text)
		}
	}
	return out
}

// catalogFinding is a line of /catalog: server: kind "name": text.
var catalogFinding = lazy.Pattern(`^(.*?): ([a-z_]+) ("(?:[^"\\]|\\.)*"): (.*)$`)

// Report turns what a gateway tells into what the doctor reads.
func Report(h *gateway.Health, info *gateway.CatalogInfo) doctor.Report {
	r := doctor.Report{Store: h.Store}
	for _, u := range h.List() {
		r.Servers = append(r.Servers, doctor.Server{Name: u.Name, State: u.State, Error: u.Error, Note: u.Note, Tools: u.Tools, Differs: u.Differs})
	}
	for _, line := range info.Findings {
		if m := catalogFinding().FindStringSubmatch(line); m != nil {
			r.Findings = append(r.Findings, doctor.CatalogFinding{Server: m[1], Kind: m[2], Name: strings.Trim(m[3], `"`), Text: m[4]})
		}
	}
	return r
}

// ListedQuery asks for what ListedNames needs.
func ListedQuery(c *config.Config) tools.Query {
	return tools.Query{Definitions: c.Mode == config.ModeAuto}
}

// ListedNames returns the names of tools that agents see, if the mode lists all of them. A catalog
// whose definitions are not all in the answer is too large for mode auto to list it.
func ListedNames(c *config.Config, list tools.List) (names []string) {
	tokens := 0
	for _, t := range list.Tools {
		namespace, _, _ := strings.Cut(t.Short, ":")
		names = append(names, namespace+"__"+t.Name)
		tokens += token.Count(t.Description) + token.CountBytes(t.InputSchema)
	}
	if c.Mode == config.ModeGateway || c.Mode == config.ModeAuto && (tokens >= c.AutoTokens || list.Total > len(list.Tools)) {
		return nil
	}
	return names
}

// KeptLines bounds the lines of stderr that are kept of each server.
const KeptLines = 20
