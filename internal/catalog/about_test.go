package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func TestAbout(t *testing.T) {
	const long = "This server reads and writes the records of a very large warehouse with many tables, views, stored procedures, users, roles and grants, and much more that a card cannot name"
	for _, test := range []struct{ title, about, instructions, want string }{
		{"", "", "", ""},
		{"GitHub", "", "", ""}, // the namespace says so already
		{"git_hub", "", "", ""},
		{"Git hosting", "", "", "Git hosting"},
		{"", "", "# Hosting\n\nWorks with repositories.\n\nUse search first.", "Works with repositories"},
		{"", "", "Finds files, e.g. texts. More.", "Finds files, e.g. texts"},
		{"", "", "Speaks v1.2 of the API", "Speaks v1.2 of the API"},
		{"Git hosting", "", "Works with repositories! More.", "Git hosting: Works with repositories!"},
		{"Git hosting", "", "Git hosting for teams. More.", "Git hosting for teams"},
		{"", "Issues and pull requests.", "Use search first.", "Issues and pull requests"},
		{"", long, "", strings.TrimRight(long[:strings.LastIndex(long[:139], " ")], ",") + "…"},
		{"", "", "# Server\n\nAudience: these instructions are for models. Follow them.\n\nKeeps\nyour notes. More.", "Keeps your notes"},
		{"", "", "- a\n- b\n```\ncode\n```", ""},
		{"hid\u200bden", "", "", "hidden"},
	} {
		l := primitive.Listing{Upstream: "github", Namespace: "github", Title: test.title, About: test.about, Instructions: test.instructions}
		if got := about(&l); got != strings.TrimRight(test.want, " ") {
			t.Errorf("%+v:\n%q, want\n%q", test, got, test.want)
		}
	}
	anonymous := primitive.Listing{Upstream: "github", Title: "Git hosting"}
	if got := about(&anonymous); got != "" {
		t.Errorf("a list of several servers is %q", got)
	}
}

func TestCardOfServerSaysWhatItIsFor(t *testing.T) {
	tools := []json.RawMessage{json.RawMessage(`{"name":"a","inputSchema":{}}`), json.RawMessage(`{"name":"b","inputSchema":{}}`)}
	l := primitive.Listing{Upstream: "files", Namespace: "files", Tools: tools}
	l = l.Presented([]byte(`{"name":"x","title":"Office files"}`), "Reads the files of an office, whose key is s3cret. And more.")
	l = l.Concealed(func(s string) string { return strings.ReplaceAll(s, "s3cret", "***") })
	c, _ := New(Limits{}).With(l)
	cards, err := c.Children("/")
	if err != nil || len(cards) != 1 {
		t.Fatal(cards, err)
	}
	const want = "Office files: Reads the files of an office, whose key is ***; 2 tools: a, b"
	if got := cards[0].Description; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := cards[0].Noted("down (no such file)").Description, "down (no such file); "+want; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	without, _ := New(Limits{}).With(primitive.Listing{Upstream: "files", Namespace: "files", Tools: tools})
	if without.Hash() == c.Hash() {
		t.Error("the hash does not depend on what the card says")
	}
	if _, got := c.About("files"); !strings.Contains(got, "office, whose key is ***") {
		t.Errorf("searched: %q", got)
	}
}
