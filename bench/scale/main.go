package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/mcp"
)

// perServer is how many tools a server has.
const perServer = 50

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// run measures catalogs of the sizes that args name, and prints a row for each.
func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		args = []string{"1000", "10000", "100000"}
	}
	fmt.Fprintln(out, "| tools | build | browse p50 | browse p99 | search p50 | search p99 | refresh p50 | one server alone |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, arg := range args {
		n, err := strconv.Atoi(arg)
		if err != nil || n < perServer {
			return fmt.Errorf("%q is no number of tools from %d", arg, perServer)
		}
		if err := measure(n, out); err != nil {
			return err
		}
	}
	return nil
}

// listingOf makes the list of a server, with words as real ones have.
func listingOf(server, change int) primitive.Listing {
	verbs := []string{"list", "get", "create", "update", "delete", "search", "export", "import", "merge", "watch"}
	nouns := []string{"issue", "file", "invoice", "customer", "deployment", "event", "message", "request", "metric", "image", "ticket", "order", "branch", "contact", "report"}
	name := "server" + strconv.Itoa(server)
	l := primitive.Listing{Upstream: name, Namespace: name}
	for i := range perServer {
		verb, noun := verbs[i%len(verbs)], nouns[(i+server)%len(nouns)]
		l.Tools = append(l.Tools, fmt.Appendf(nil, `{"name":"%s_%s_%d","description":"%s one or more %ss of project %d and return what changed, as of %d.","inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"which %s"},"project":{"type":"string"}}}}`,
			verb, noun, i, verb, noun, server, change, noun))
	}
	return l
}

// fixed is a gateway's upstreams: a snapshot and no connection.
type fixed struct{ snapshot *metatool.Snapshot }

var errNoCalls = errors.New("nothing is called here")

func (f *fixed) Peer(context.Context, string) (mcp.Peer, error) { return nil, errNoCalls }
func (f *fixed) Snapshot() *metatool.Snapshot                   { return f.snapshot }

func measure(n int, out io.Writer) error {
	var listings []primitive.Listing
	for server := range n / perServer {
		listings = append(listings, listingOf(server, 0))
	}
	start := time.Now()
	s := metatool.NewSnapshot(catalog.Limits{})
	for _, l := range listings {
		s, _ = s.With(l)
	}
	s.Prepare()
	build := time.Since(start)
	if got := s.Catalog.Len(); got != len(listings)*perServer {
		return fmt.Errorf("%d tools of %d are in the catalog", got, len(listings)*perServer)
	}
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	g := metatool.New(metatool.Options{Upstreams: &fixed{s}, Artifacts: store})
	browses, err := ask(g, `{"path":"/"}`, `{"path":"/server3"}`)
	if err != nil {
		return err
	}
	searches, err := ask(g, `{"query":"list issues"}`, `{"query":"create a request"}`, `{"query":"delete customer"}`, `{"query":"export metrics as a report"}`,
		`{"query":"I need to find out which invoices of a customer changed in project 12 and send them a message about it"}`)
	if err != nil {
		return err
	}
	refresh := refreshes(s)
	one, _ := metatool.NewSnapshot(catalog.Limits{}).With(listings[3])
	alone := refreshes(one)
	fmt.Fprintf(out, "| %d | %.2f s | %s | %s | %s | %s | %s | %s |\n", n, build.Seconds(), at(browses, 50), at(browses, 99), at(searches, 50), at(searches, 99), at(refresh, 50), at(alone, 50))
	return nil
}

// ask measures calls of tool_browse with these arguments in turns.
func ask(g *metatool.Gateway, arguments ...string) (took []time.Duration, err error) {
	session := mcp.NewSession("s", "scale")
	defer session.Close()
	for i := range 200 {
		r := &mcp.Request{ID: "1", Method: "tools/call", Session: session, Peer: mcp.NoPeer,
			Params: json.RawMessage(`{"name":"tool_browse","arguments":` + arguments[i%len(arguments)] + `}`)}
		start := time.Now()
		answer, err := g.Serve(context.Background(), r)
		if err != nil {
			return nil, err
		}
		if i >= 20 {
			took = append(took, time.Since(start))
		}
		if strings.Contains(string(answer), `"isError":true`) {
			return nil, fmt.Errorf("tool_browse %s: %.300s", arguments[i%len(arguments)], answer)
		}
	}
	return took, nil
}

// refreshes measures changes of one server's list: with the work of the next search, the report of
// the change to operators, and the figures of the catalog.
func refreshes(s *metatool.Snapshot) (took []time.Duration) {
	state := metatool.NewState()
	defer state.Close(context.Background())
	state.Refresh(s.Catalog)
	for change := range 40 {
		l := listingOf(3, change+1)
		start := time.Now()
		s = refresh(state, s, l)
		took = append(took, time.Since(start))
	}
	return took
}

// refresh takes over a listing as a gateway does.
func refresh(state *metatool.State, s *metatool.Snapshot, l primitive.Listing) *metatool.Snapshot {
	s, _ = s.With(l)
	s.Prepare()
	state.Refresh(s.Catalog)
	s.Catalog.Kinds()
	s.Catalog.Findings()
	s.Catalog.Hash()
	return s
}

// at returns a percentile for a table.
func at(took []time.Duration, percent int) string {
	slices.Sort(took)
	return fmt.Sprintf("%.2f ms", float64(took[len(took)*percent/100].Microseconds())/1000)
}
