package catalog

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// refusedListing is a listing that a strict catalog refuses where the published text wants the catalog to fail.
type refusedListing struct {
	limits    Limits
	namespace string
	tools     []string
	kind      FindingKind // by default
	says      string
}

// check: by default the listing is taken, with a finding. A strict catalog stays as it was.
func (c *refusedListing) check(t *testing.T) {
	t.Helper()
	const fine = `{"name":"fine","description":"d","inputSchema":{"type":"object"}}`
	l := primitive.Listing{Upstream: "x", Namespace: "x"}
	if c.namespace != "" {
		l.Namespace = c.namespace
	}
	first, second := l, l
	first.Tools = raws(fine)
	second.Tools = raws(append(c.tools, fine)...)
	lenient, _ := New(c.limits).With(first)
	lenient, report := lenient.With(second)
	if !report.Has(c.kind) || report.Has(FoundRefused) || len(lenient.Of("x")) == 0 {
		t.Fatalf("by default: %+v", report)
	}
	c.limits.Strict = true
	before, report := New(c.limits).With(first)
	if report.Has(FoundRefused) {
		t.Fatalf("%+v", report)
	}
	after, report := before.With(second)
	if after != before || report.Tools != 1 || !report.Has(FoundRefused) || !strings.Contains(report.Findings[0].Message, c.says) {
		t.Errorf("%+v", report)
	}
	// A server whose first list is refused offers nothing, and its next list is taken.
	none, report := New(c.limits).With(second)
	if len(none.Of("x")) != 0 || report.Tools != 0 || !report.Has(FoundRefused) {
		t.Errorf("%+v", report)
	}
	if again, report := none.With(first); report.Has(FoundRefused) || len(again.Of("x")) != 1 {
		t.Errorf("%+v", report)
	}
}

// TestStrictCollision: two tools with one id refuse the list: spec/gateway §7, row 1.5.
func TestStrictCollision(t *testing.T) {
	(&refusedListing{
		tools: []string{`{"name":"a b","description":"d","inputSchema":{},"_meta":{"version":"1"}}`, `{"name":"a_b","description":"d","inputSchema":{},"_meta":{"version":"1"}}`},
		kind:  FoundCollision, says: `different tools have the same id x:a_b@1: "a b" of server "x", "a_b" of server "x"`,
	}).check(t)
}

// TestStrictCardBudget: a card of more than 80 tokens refuses the list: spec/gateway §7, row 2.3.
func TestStrictCardBudget(t *testing.T) {
	(&refusedListing{
		namespace: strings.Repeat("xq", 32), tools: []string{`{"name":"` + strings.Repeat("Zq9_", 31) + `","description":"d","inputSchema":{}}`},
		kind: FoundOverBudget, says: "tokens",
	}).check(t)
}

// TestStrictSchema: a schema that schema_limits reject refuses the list: spec/gateway §7, row 4.4.
func TestStrictSchema(t *testing.T) {
	(&refusedListing{
		limits: Limits{OnInvalid: rejectInvalid}, tools: []string{`{"name":"bad","description":"d","inputSchema":{"type":7}}`},
		kind: FoundRejected, says: `tool "bad" of server "x" is left out`,
	}).check(t)
}

// TestStrictDuplicatesCollapse: a name that a server offers twice, and one that two servers offer,
// refuse nothing: the first stays (spec/gateway §1.5).
func TestStrictDuplicatesCollapse(t *testing.T) {
	const tool = `{"name":"a","description":"d","inputSchema":{}}`
	c, report := New(Limits{Strict: true}).With(primitive.Listing{Upstream: "x", Namespace: "s", Tools: raws(tool, tool)})
	if report.Has(FoundRefused) || !report.Has(FoundDuplicate) {
		t.Errorf("%+v", report)
	}
	if c, report = c.With(primitive.Listing{Upstream: "y", Namespace: "s", Tools: raws(tool, `{"name":"b","description":"d","inputSchema":{}}`)}); report.Has(FoundRefused) || len(c.Of("y")) != 1 {
		t.Errorf("%+v", report)
	}
}

// TestStrictPaths: a small namespace has groups, too: spec/gateway §7, row 3.3.
func TestStrictPaths(t *testing.T) {
	l := primitive.Listing{Upstream: "github", Namespace: "github"}
	for _, name := range []string{"create_issue", "list_issues", "get_repo", "delete_repo", "whoami"} {
		l.Tools = append(l.Tools, raws(`{"name":"`+name+`","description":"d","inputSchema":{}}`)...)
	}
	paths := func(c *Catalog, path string) string {
		cards, err := c.Children(path)
		if err != nil {
			return string(err.(*Error).Code)
		}
		var names []string
		for _, card := range cards {
			names = append(names, card.Name)
		}
		return strings.Join(names, " ")
	}
	lenient, _ := New(Limits{}).With(l)
	strict, _ := New(Limits{Strict: true}).With(l)
	for path, want := range map[string][2]string{
		"/github":                     {"create_issue delete_repo get_repo list_issues whoami", "issue repo whoami"},
		"/github/issues":              {"PATH_NOT_FOUND", "create_issue list_issues"},
		"/github/issues/*":            {"PATH_NOT_FOUND", "create_issue list_issues"},
		"/github/issues/create_issue": {"PATH_NOT_FOUND", "create_issue"},
		"/github/create_issue":        {"create_issue", "PATH_NOT_FOUND"},
		"/github/whoamis":             {"PATH_NOT_FOUND", "PATH_NOT_FOUND"},
	} {
		if got := [2]string{paths(lenient, path), paths(strict, path)}; got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for _, e := range strict.Entries() {
		if path, ok := strict.Path(e.ID); !ok || paths(strict, path) != e.Card.Name {
			t.Errorf("%s is at %s: %s", e.ID, path, paths(strict, path))
		}
	}
}
