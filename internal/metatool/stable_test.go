package metatool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// newStableHarness has the tools n:a … n:z, whose descriptions are queries.
func newStableHarness(t testing.TB, opts Options) *harness {
	opts.CacheStable = true
	h := newHarness(t, opts)
	var tools []string
	for _, tool := range []struct{ name, words string }{
		{"delta", "paint walls red"}, {"alpha", "paint walls blue"}, {"echo", "count sheep"}, {"bravo", "count sheep and paint walls"}, {"charlie", "sing songs"},
	} {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":%q,"_meta":{"version":"1"}}`, tool.name, tool.words))
	}
	h.Add("n", calltest.Echo, tools...)
	return h
}

// browse returns the ids of an answer, the marker as "|".
func (h *harness) browse(t testing.TB, arguments string) (ids []string, lines []string) {
	t.Helper()
	s := h.Tool(t, ToolBrowse, arguments)
	if s.IsError {
		t.Fatalf("%+v", s)
	}
	lines = strings.Split(s.Content[0].Text, "\n")
	for _, line := range lines {
		id, _, _ := strings.Cut(line, " ")
		if id == cacheBreakpointID {
			id = "|"
		}
		ids = append(ids, strings.TrimSuffix(strings.TrimPrefix(id, "n:"), "@1"))
	}
	return ids, lines
}

func (h *harness) wantBrowse(t testing.TB, arguments, want string) []string {
	t.Helper()
	ids, lines := h.browse(t, arguments)
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("%s: %s, want %s", arguments, got, want)
	}
	return lines
}

func TestCacheStableOrder(t *testing.T) {
	h := newStableHarness(t, Options{})
	// The first browse of a session: all new, by id, no marker.
	first := h.wantBrowse(t, `{"query":"paint walls"}`, "alpha bravo delta")
	// Seen ones first, then the marker, then the new ones.
	second := h.wantBrowse(t, `{"query":"count sheep"}`, "bravo | echo")
	if second[0] != first[1] {
		t.Errorf("the bytes changed: %q, %q", second[0], first[1])
	}
	// All seen: no marker.
	h.wantBrowse(t, `{"query":"count sheep"}`, "bravo echo")
	// All new: no marker.
	h.wantBrowse(t, `{"query":"sing songs"}`, "charlie")
	// Paths are browsed in the same order.
	h.wantBrowse(t, `{"path":"/n"}`, "alpha bravo charlie delta echo")
}

func TestCacheStableIsPerSession(t *testing.T) {
	h := newStableHarness(t, Options{})
	h.browse(t, `{"query":"paint walls"}`)
	h.Session = mcp.NewSession("other", "ann")
	h.wantBrowse(t, `{"query":"count sheep"}`, "bravo echo")
}

func TestCacheStableOffByDefault(t *testing.T) {
	h := newHarness(t, Options{})
	for range 2 {
		if ids, _ := h.browse(t, `{"query":"read a file from disk"}`); slices.Contains(ids, "|") || !strings.HasPrefix(ids[0], "files:read_file") {
			t.Errorf("%q", ids)
		}
	}
}

// The marker costs no card its place, whatever top_k is: a new exact match is
// there.
func TestCacheStableMarkerTakesNoPlace(t *testing.T) {
	h := newStableHarness(t, Options{})
	h.wantBrowse(t, `{"query":"paint walls blue","top_k":1}`, "alpha")
	h.wantBrowse(t, `{"query":"paint walls red","top_k":2}`, "alpha | delta")
	h.wantBrowse(t, `{"query":"sing songs","top_k":1}`, "charlie")
}

// A card's content is frozen when it is first seen, its score included.
func TestCacheStableFreezesScores(t *testing.T) {
	h := newStableHarness(t, Options{Format: result.FormatJSON})
	cards := func(arguments string) map[string]string {
		s := h.Tool(t, ToolBrowse, arguments)
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(s.Content[0].Text), &list); err != nil {
			t.Fatal(err)
		}
		byID := map[string]string{}
		for _, raw := range list {
			var card struct {
				ID, Kind string
				Score    *float64
			}
			if err := json.Unmarshal(raw, &card); err != nil {
				t.Fatal(err)
			}
			if card.ID == cacheBreakpointID && (card.Kind != "internal" || card.Score != nil) {
				t.Errorf("the marker is %s", raw)
			}
			byID[card.ID] = string(raw)
		}
		return byID
	}
	first := cards(`{"query":"paint walls"}`)
	second := cards(`{"query":"count sheep and paint"}`)
	third := cards(`{"path":"/n"}`) // a path has no scores; what was seen keeps its own
	for id, raw := range first {
		if !strings.Contains(raw, `"score":`) {
			t.Errorf("%s has no score", raw)
		}
		if second[id] != "" && second[id] != raw || third[id] != raw {
			t.Errorf("%s changed:\n%s\n%s\n%s", id, raw, second[id], third[id])
		}
	}
	if second[cacheBreakpointID] == "" || strings.Contains(third["n:charlie@1"], "score") {
		t.Errorf("%v\n%v", second, third)
	}
}

func TestCacheStableCountsHydrations(t *testing.T) {
	h := newStableHarness(t, Options{ExposeHydrate: true})
	calltest.Failure(t, h.Tool(t, ToolHydrate, `{"tool_id":"n:echo@2"}`))
	calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"n:nope@1","args":{}}`))
	if st := h.g.state.session(&mcp.Request{Session: h.Session}); len(st.stable.seen) != 0 || len(st.offered) != 0 {
		t.Errorf("failed hydrations were recorded: %v, %v", st.stable.seen, st.offered)
	}
	if s := h.Tool(t, ToolHydrate, `{"tool_id":"n:echo@1"}`); s.IsError {
		t.Fatalf("%+v", s)
	}
	h.wantBrowse(t, `{"query":"count sheep"}`, "echo | bravo")
	h.Tool(t, ToolExecute, `{"tool_id":"n:charlie@1","args":{}}`)
	h.wantBrowse(t, `{"query":"sing songs and count sheep"}`, "bravo charlie echo")
}

// A refresh begins anew: bytes of cards that may have changed are not repeated.
func TestCacheStableEndsWithTheCatalog(t *testing.T) {
	h := newStableHarness(t, Options{})
	h.browse(t, `{"query":"paint walls"}`)
	h.Add("n", calltest.Echo, `{"name":"alpha","description":"paint walls green","_meta":{"version":"1"}}`, `{"name":"echo","description":"paint walls too","_meta":{"version":"1"}}`)
	lines := h.wantBrowse(t, `{"query":"paint walls"}`, "alpha echo")
	if !strings.Contains(lines[0], "green") {
		t.Errorf("%q", lines[0])
	}
}

func TestCacheStableIsBounded(t *testing.T) {
	h := newHarness(t, Options{CacheStable: true})
	var tools []string
	for i := range maxOffered + 100 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%05d","description":"x","_meta":{"version":"1"}}`, i))
	}
	h.Add("n", calltest.Echo, tools...)
	st := h.g.state.session(&mcp.Request{Session: h.Session})
	e := h.Snapshot().Catalog.Of("n")
	for i := range e {
		st.hydrated(h.Snapshot().Catalog, e[i].ID, true)
	}
	if len(st.stable.seen) != maxOffered || len(st.offered) != maxOffered {
		t.Errorf("%d seen, %d offered", len(st.stable.seen), len(st.offered))
	}
}
