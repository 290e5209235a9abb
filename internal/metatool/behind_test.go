package metatool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
)

func TestBehind(t *testing.T) {
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("aws-%02d", i))
	}
	for i := range 12 {
		many = append(many, fmt.Sprintf("gcp_%02d", i), fmt.Sprintf("only%02d", i))
	}
	for _, test := range []struct {
		names  []string
		tokens int
		want   string
	}{
		{nil, 100, ""},
		{[]string{"files"}, 100, "Servers: files."},
		{[]string{"files", "github"}, 100, "Servers: files, github."},
		{many, 30, "54 servers: aws (30), gcp (12), only00, only01, only02, only03, only04, only05 and 6 more."},
		{many, 1, "54 servers."},
		{[]string{"-", "-a-b", "a_c"}, 5, "3 servers: a (2) and 1 more."},
	} {
		if got := behind(append([]string(nil), test.names...), test.tokens); got != test.want {
			t.Errorf("%d names in %d tokens: %q, want %q", len(test.names), test.tokens, got, test.want)
		}
	}
	for n := 1; n < 2000; n *= 3 {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("company%d-server-for-%s", i, strings.Repeat("x", i%90)))
		}
		for tokens, most := range map[int]int{behindTokens: 150, definedTokens: 30} {
			if said := behind(names, tokens); token.Count(said) > most || said == "" {
				t.Errorf("%d servers take %d tokens: %s", n, token.Count(said), said)
			}
		}
	}
}

// TestNamesOfServers: the list and the instructions name what is there, and keep their bytes while a
// server comes and goes.
func TestNamesOfServers(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("files", calltest.Echo, `{"name":"read","description":"Read a file."}`)
	lossy := lossyFleet{fleet: fleet{h.Fleet}, missing: []Missing{{"github", "gh", ""}}}
	h.change(func(o *Options) { o.Upstreams = lossy })
	list := func() string {
		out, err := h.Ask(t, "tools/list", "{}")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	starting := list()
	if !strings.Contains(starting, "what it does [tags]. Servers: files, gh, web.\",\"inputSchema\"") {
		t.Errorf("the list does not name the servers: %.500s", starting)
	}
	if said := h.g.Instructions(t.Context()); !strings.HasSuffix(said, " with tool_view. Servers: files, gh, web.") {
		t.Errorf("instructions: %s", said)
	}
	h.Add("gh", calltest.Echo, `{"name":"issue","description":"Read an issue."}`)
	lossy = lossyFleet{fleet: fleet{h.Fleet}}
	h.change(func(o *Options) { o.Upstreams = lossy })
	if up := list(); up != starting {
		t.Errorf("the list has changed since the server came up:\n%s\n%s", starting, up)
	}
	h.Add("maps", calltest.Echo, `{"name":"find","description":"Find a place."}`)
	if more := list(); !strings.Contains(more, "Servers: files, gh, maps, web.") {
		t.Errorf("a new server is not named: %.500s", more)
	}
}
