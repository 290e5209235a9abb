package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// stage is the servers and the task.
type stage struct {
	title    string
	steps    []step
	snapshot func() *metatool.Snapshot
	peer     func(ctx context.Context, name string) (mcp.Peer, error)
	stop     func() error
}

var _ metatool.Upstreams = (*stage)(nil)

// Peer implements metatool.Upstreams.
func (s *stage) Peer(ctx context.Context, name string) (mcp.Peer, error) { return s.peer(ctx, name) }

// Snapshot implements metatool.Upstreams.
func (s *stage) Snapshot() *metatool.Snapshot { return s.snapshot() }

func (s *stage) close() error {
	if s.stop == nil {
		return nil
	}
	return s.stop()
}

// idOf is the tool_id of a step's tool.
func (s *stage) idOf(st step) string {
	for _, e := range s.Snapshot().Catalog.Of(st.Server) {
		if e.RawName == st.Tool && e.Kind == primitive.KindTool {
			return e.ID
		}
	}
	return ""
}

// startTime bounds the start of real servers.
const startTime = time.Minute

// startServers starts the servers of a file {"mcpServers":{…},"task":[step…]}.
// Programs get the environment that the file gives them and no more.
func startServers(ctx context.Context, file string) (*stage, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Servers json.RawMessage `json:"mcpServers"`
		Task    []step          `json:"task"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(doc.Task) == 0 {
		return nil, fmt.Errorf("%s has no task", file)
	}
	servers := append(append([]byte(`{"mcpServers":`), doc.Servers...), '}')
	opts := config.System()
	opts.Strict = true
	c, _, err := config.Parse(filepath.Join(filepath.Dir(file), "servers.json"), servers, opts)
	if err != nil {
		return nil, err
	}
	live := catalog.NewLive(metatool.NewSnapshot(catalog.Limits{}), catalog.LiveOptions[*metatool.Snapshot]{Prepare: func(s *metatool.Snapshot) { s.Index.Prepare() }})
	m := upstream.New(upstream.Options{ClientInfo: json.RawMessage(`{"name":"context","version":"1"}`), Sink: live})
	s := &stage{title: "real servers: " + strings.Join(names(c.Enabled()), ", "), steps: doc.Task, snapshot: live.Snapshot, peer: m.Peer}
	s.stop = func() error {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return m.Close(end)
	}
	m.Apply(c.Enabled())
	wait, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := m.Ready(wait); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	for _, status := range m.Status() {
		if !status.Listed {
			return nil, errors.Join(fmt.Errorf("server %q did not start: %s", status.Name, status.LastError), s.stop())
		}
	}
	return s, nil
}

func names(servers []*config.Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Name
	}
	return list
}

// canned is a peer whose tools answer with the texts of their step.
type canned map[string]string

// Call implements mcp.Peer.
func (c canned) Call(_ context.Context, _ string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	var call struct{ Name string }
	if err := json.Unmarshal(params, &call); err != nil {
		return nil, err
	}
	text, ok := c[call.Name]
	if !ok {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "no answer for %q", call.Name)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, quoted), nil
}

// Notify implements mcp.Peer.
func (canned) Notify(context.Context, string, json.RawMessage) error { return nil }

// cannedStage is a stage over only definitions. Its task calls two tools of them; the first answers
// a table, the second a short text.
func cannedStage(title string, servers map[string][]json.RawMessage) (*stage, error) {
	snapshot := metatool.NewSnapshot(catalog.Limits{})
	order := make([]string, 0, len(servers))
	for name := range servers {
		order = append(order, name)
	}
	slices.Sort(order)
	taken := map[string]bool{}
	for _, name := range order {
		namespace := config.NamespaceFor(name, func(n string) bool { return taken[n] })
		taken[namespace] = true
		snapshot, _ = snapshot.With(primitive.Listing{Upstream: name, Namespace: namespace, Tools: servers[name]})
	}
	snapshot.Index.Prepare()
	s := &stage{title: title, snapshot: func() *metatool.Snapshot { return snapshot }}
	answers := canned{}
	s.peer = func(context.Context, string) (mcp.Peer, error) { return answers, nil }
	entries := snapshot.Catalog.Entries()
	for n, answer := range []string{table(), "Done: the record was changed, revision 7 of today."} {
		st, ok := findStep(snapshot, entries[len(entries)*(n+1)/3:])
		if !ok {
			return nil, fmt.Errorf("%s: there is no tool to make a task of", title)
		}
		st.View = json.RawMessage(`{"type":"rows","start":0,"end":20}`)
		answers[st.Tool] = answer
		s.steps = append(s.steps, st)
	}
	return s, nil
}

// table is 200 rows as JSON, as a listing tool answers.
func table() string {
	rows := make([]string, 200)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":%d,"name":"record number %d","state":"%s","owner":"team %d","updated":"2026-03-%02dT10:00:00Z"}`, 1000+i, i, []string{"open", "closed"}[i%2], i%7, i%28+1)
	}
	return "[" + strings.Join(rows, ",") + "]"
}

// findStep makes a step of the first entry that its own words find and for
// which valid arguments can be made up.
func findStep(s *metatool.Snapshot, entries []*catalog.Entry) (step, bool) {
	for _, e := range entries {
		words, _, _ := strings.Cut(e.Description, ".")
		query := strings.Join(strings.Fields(strings.NewReplacer("_", " ", "-", " ").Replace(e.RawName)+" "+words), " ")
		if len(query) > 120 || e.Kind != primitive.KindTool {
			continue
		}
		args := example(e.InputSchema, 0)
		if len(args) < 10 || e.Validate(args) != nil || e.Validate(json.RawMessage("{}")) == nil {
			continue
		}
		hits := s.Index.Search(query, 5)
		for _, h := range hits {
			if h.ID == e.ID {
				return step{Query: query, Server: e.Upstream, Tool: e.RawName, Args: args}, true
			}
		}
	}
	return step{}, false
}

// maxDepth bounds made-up arguments.
const maxDepth = 8

// example makes up a value for a schema; it is valid for most.
func example(schema json.RawMessage, depth int) json.RawMessage {
	var s struct {
		Type       any                        `json:"type"`
		Enum       []json.RawMessage          `json:"enum"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil || depth > maxDepth {
		return json.RawMessage(`null`)
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.Type {
	case "object":
		out := []byte{'{'}
		slices.Sort(s.Required)
		for _, name := range s.Required {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = fmt.Appendf(out, "%q:%s", name, example(s.Properties[name], depth+1))
		}
		return append(out, '}')
	case "string":
		return json.RawMessage(`"an example"`)
	case "integer", "number":
		return json.RawMessage(`7`)
	case "boolean":
		return json.RawMessage(`true`)
	case "array":
		return json.RawMessage(`[]`)
	}
	return json.RawMessage(`null`)
}

// maxLine bounds a line of tools.jsonl.
const maxLine = 4 << 20

// readSets reads the tools of all sets in a folder.
func readSets(dir string) (*stage, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "tools.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no set: there is no <set>/tools.jsonl", dir)
	}
	servers, total := map[string][]json.RawMessage{}, 0
	for _, file := range files {
		n, err := readSet(file, servers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		total += n
	}
	return cannedStage(fmt.Sprintf("%d tools of %d sets, %d servers", total, len(files), len(servers)), servers)
}

func readSet(file string, servers map[string][]json.RawMessage) (n int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var t struct {
			ID, Server, Name, Description string
			InputSchema                   json.RawMessage `json:"inputSchema"`
		}
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return n, err
		}
		if len(t.InputSchema) == 0 || string(t.InputSchema) == "null" {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		def, err := json.Marshal(struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}{t.Name, t.Description, t.InputSchema})
		if err != nil {
			return n, err
		}
		server := filepath.Base(filepath.Dir(file)) + "-" + t.Server
		servers[server] = append(servers[server], def)
		n++
	}
	return n, lines.Err()
}

// madeUpTools is how many tools the made-up catalogue has: as many as the
// retrieval sets have that search is tuned on.
const madeUpTools = 4086

// madeUp is a catalogue of n tools in the words of real ones, 40 a server.
func madeUp(n int) (*stage, error) {
	verbs := strings.Fields("list get create update delete search export import merge watch archive restore")
	nouns := strings.Fields("issue file invoice customer deployment calendar message branch metric image ticket order contact report shipment account dashboard")
	scopes := strings.Fields("project team repository workspace region tenant channel")
	servers := map[string][]json.RawMessage{}
	for i := range n {
		verb, noun, scope := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)], scopes[i/(len(verbs)*len(nouns))%len(scopes)]
		name := fmt.Sprintf("%s_%s_of_%s", verb, noun, scope)
		def := fmt.Appendf(nil, `{"name":%q,"description":"%s the %ss of a %s. The answer holds what was found or changed, the newest first, with who changed it and when; ask for a page at a time where there are many.","inputSchema":{"type":"object","properties":{"%s_id":{"type":"string","description":"Which %s to look in, by its id or its full path."},"filter":{"type":"string","description":"Only those that match: name:value pairs, separated by spaces."},"limit":{"type":"integer","minimum":1,"maximum":500,"description":"How many at most."},"cursor":{"type":"string","description":"Where to go on, from the answer before."}},"required":["%s_id"]}}`,
			name, strings.ToUpper(verb[:1])+verb[1:], noun, scope, scope, scope, scope)
		server := fmt.Sprintf("server%d", i/40)
		servers[server] = append(servers[server], def)
	}
	return cannedStage(fmt.Sprintf("%d made-up tools of %d servers", n, len(servers)), servers)
}
