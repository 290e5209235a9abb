package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// walk visits every card from "/" down, and returns the ids of all leaves with
// the path they were reached by.
func walk(t *testing.T, c *Catalog, kind primitive.Kind) map[string]string {
	t.Helper()
	leaves := map[string]string{}
	var visit func(path string, depth int)
	visit = func(path string, depth int) {
		cards, err := c.ChildrenOf(kind, path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if depth > 0 && len(cards) > maxLevel {
			t.Fatalf("%s has %d children", path, len(cards))
		}
		if !slices.IsSortedFunc(cards, func(a, b Card) int { return strings.Compare(a.ID, b.ID) }) {
			t.Errorf("%s: cards are not sorted by id", path)
		}
		for _, card := range cards {
			if card.Kind != primitive.KindInternal {
				if _, ok := leaves[card.ID]; ok {
					t.Errorf("%s is reached twice", card.ID)
				}
				leaves[card.ID], _ = c.Path(card.ID)
				continue
			}
			if !strings.HasPrefix(card.ID, strings.TrimSuffix(path, "/")+"/") || card.Tokens > cardTarget || card.HasSchema || card.SideEffects {
				t.Errorf("card of a cluster at %s: %+v", path, card)
			}
			if depth > 12 {
				t.Fatalf("%s is too deep", card.ID)
			}
			visit(card.ID, depth+1)
		}
	}
	visit("/", 0)
	return leaves
}

// nouns and verbs make names like those of real servers.
var (
	verbs = strings.Fields("get list create update delete search add remove set run export import")
	nouns = strings.Fields("issue repository pull_request branch commit file user team label release workflow artifact secret webhook page database document message channel thread reaction event invoice customer order")
)

// namesOf returns n different names.
func namesOf(n int, rng *rand.Rand) []string {
	seen := map[string]bool{}
	var names []string
	for len(names) < n {
		var name string
		switch noun, verb := nouns[rng.IntN(len(nouns))], verbs[rng.IntN(len(verbs))]; rng.IntN(6) {
		case 0:
			name = verb + strings.ToUpper(noun[:1]) + noun[1:]
		case 1:
			name = fmt.Sprintf("%s-%s-%d", verb, noun, rng.IntN(100))
		case 2:
			name = fmt.Sprintf("tool_%04d", rng.IntN(10000))
		case 3:
			name = strings.ToUpper(verb) + " " + noun
		default:
			name = fmt.Sprintf("%s_%s_%s", verb, noun, nouns[rng.IntN(len(nouns))])
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func listingOf(upstream string, names []string) primitive.Listing {
	l := primitive.Listing{Upstream: upstream, Namespace: upstream}
	for _, name := range names {
		l.Tools = append(l.Tools, json.RawMessage(tool(name)))
	}
	return l
}

func TestEveryToolIsReachable(t *testing.T) {
	numbered := make([]string, 10000)
	for i := range numbered {
		numbered[i] = fmt.Sprintf("tool_%d", i)
	}
	tests := []struct {
		name     string
		listings func(rng *rand.Rand) []primitive.Listing
		want     int
	}{
		{"100 servers of 100", func(rng *rand.Rand) (ls []primitive.Listing) {
			for i := range 100 {
				ls = append(ls, listingOf(fmt.Sprintf("server%d", i), namesOf(100, rng)))
			}
			return ls
		}, 10000},
		{"one server of 3,000", func(rng *rand.Rand) []primitive.Listing {
			return []primitive.Listing{listingOf("big", namesOf(3000, rng))}
		}, 3000},
		{"one server of 10,000 numbers", func(*rand.Rand) []primitive.Listing { return []primitive.Listing{listingOf("big", numbered)} }, 10000},
		{"few", func(rng *rand.Rand) []primitive.Listing {
			return []primitive.Listing{listingOf("few", namesOf(20, rng))}
		}, 20},
		{"one too many", func(rng *rand.Rand) []primitive.Listing {
			return []primitive.Listing{listingOf("few", namesOf(21, rng))}
		}, 21},
		{"none", func(*rand.Rand) []primitive.Listing { return nil }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New(Limits{})
			for _, l := range tt.listings(rand.New(rand.NewPCG(1, 1))) {
				c, _ = c.With(l)
			}
			if c.Len() != tt.want {
				t.Fatalf("%d entries, want %d", c.Len(), tt.want)
			}
			leaves := walk(t, c, primitive.KindTool)
			if len(leaves) != tt.want {
				t.Fatalf("%d leaves, want %d", len(leaves), tt.want)
			}
			for id, path := range leaves {
				cards, err := c.Children(path)
				if err != nil || len(cards) != 1 || cards[0].ID != id {
					t.Fatalf("path %s of %s leads to %v, %v", path, id, cards, err)
				}
			}
		})
	}
}

func TestPathsDependOnNoOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	names := namesOf(300, rng)
	c1, _ := New(Limits{}).With(listingOf("s", names))
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	c2, _ := New(Limits{}).With(listingOf("s", names))
	for _, e := range c1.Entries() {
		p1, _ := c1.Path(e.ID)
		if p2, ok := c2.Path(e.ID); !ok || p1 != p2 {
			t.Fatalf("%s is at %s and at %s", e.ID, p1, p2)
		}
	}
}

func TestLeafSegments(t *testing.T) {
	def := func(name, version string) string {
		return fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":{},"_meta":{"version":%q}}`, name, version)
	}
	hash := func(name string) string { return hashTool(name, nil) }
	tests := []struct {
		name string
		defs []string
		want []string // in the order of the definitions
	}{
		{"plain", []string{def("create_issue", "1")}, []string{"create_issue"}},
		{"upper case", []string{def("createIssue", "1")}, []string{"createissue-" + hash("createIssue")}},
		{"points", []string{def("v1.get", "1")}, []string{"v1-get-" + hash("v1.get")}},
		{"leading underscore", []string{def("_get", "1")}, []string{"get-" + hash("_get")}},
		{"only underscores", []string{def("__", "1")}, []string{"x-" + hash("__")}},
		{"changed into another's", []string{def("get", "1"), def("GET", "1")}, []string{"get", "get-" + hash("GET")}},
		{"two of one name", []string{def("n.get", "1"), def("get", "2")}, []string{"get-" + hash("n.get"), "get-" + hash("get")}},
		{"long", []string{def(strings.Repeat("a", 100), "1")}, []string{strings.Repeat("a", 55) + "-" + hash(strings.Repeat("a", 100))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := New(Limits{}).With(primitive.Listing{Upstream: "n", Namespace: "n", Tools: raws(tt.defs...)})
			if c.Len() != len(tt.defs) {
				t.Fatalf("%d entries", c.Len())
			}
			for i, def := range tt.defs {
				j := slices.IndexFunc(c.Entries(), func(e *Entry) bool { return string(e.Raw) == def })
				if got, _ := c.Path(c.Entries()[j].ID); got != "/n/"+tt.want[i] {
					t.Errorf("%s is at %s, want /n/%s", def, got, tt.want[i])
				}
			}
		})
	}
}

// Two versions of one tool have one name and one hash; both are reachable.
func TestTwoVersionsOfOneTool(t *testing.T) {
	c := New(Limits{})
	for _, version := range []string{"1", "10"} {
		c, _ = c.With(primitive.Listing{Upstream: "pay" + version, Namespace: "pay", Tools: raws(`{"name":"refund","_meta":{"version":"` + version + `"}}`)})
	}
	if leaves := walk(t, c, primitive.KindTool); len(leaves) != 2 || leaves["pay:refund@1"] == leaves["pay:refund@10"] {
		t.Errorf("leaves %v", leaves)
	}
}

func TestClustersAreWords(t *testing.T) {
	var names []string
	for _, noun := range []string{"issue", "branch", "label"} {
		for _, verb := range []string{"get", "list", "create", "update", "delete", "search", "close", "move"} {
			names = append(names, verb+"_"+noun)
		}
	}
	names = append(names, "list_issues", "ping")
	c, _ := New(Limits{}).With(listingOf("github", names))
	cards, err := c.Children("/github")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, card := range cards {
		ids = append(ids, card.ID)
	}
	ping := "github:ping#" + hashTool("ping", json.RawMessage(`{"properties":{"a":{}}}`))
	if want := []string{"/github/branch", "/github/issue", "/github/label", ping}; !slices.Equal(ids, want) {
		t.Errorf("children of /github are %q, want %q", ids, want)
	}
	cards, err = c.Children("/github/issue/list_issues")
	if err != nil || len(cards) != 1 || cards[0].Name != "list_issues" {
		t.Errorf("leaf: %v, %v", cards, err)
	}
	if card := func() Card { cs, _ := c.Children("/"); return cs[0] }(); card.ID != "/github" || card.Kind != primitive.KindInternal ||
		card.Namespace != "github" || !strings.HasPrefix(card.Description, "26 tools: branch, issue, label, ping") {
		t.Errorf("card of the namespace %+v", card)
	}
}

func TestPaths(t *testing.T) {
	c, _ := New(Limits{}).With(listingOf("github", []string{"create_issue", "9lives"}))
	c, _ = c.With(listingOf("a-b_1", []string{"x"}))
	leaf := "/github/create_issue"
	tests := []struct {
		path  string
		cards int
		code  Code
	}{
		{"/", 2, ""}, {"/*", 2, ""}, {"/github", 2, ""}, {"/github/*", 2, ""}, {leaf, 1, ""}, {leaf + "/*", 1, ""}, {"/a-b_1/x", 1, ""},
		{"", 0, PathInvalid}, {"github", 0, PathInvalid}, {"/github/", 0, PathInvalid}, {"//", 0, PathInvalid}, {"//github", 0, PathInvalid},
		{"/github//x", 0, PathInvalid}, {"/GitHub", 0, PathInvalid}, {"/github/Create", 0, PathInvalid}, {"/github/a.b", 0, PathInvalid},
		{"/1github", 0, PathInvalid}, {"/github/_x", 0, PathInvalid}, {"/github/-x", 0, PathInvalid}, {"/github/**", 0, PathInvalid},
		{"/github/*?tag=x", 0, PathInvalid}, {" /github", 0, PathInvalid}, {"/gìthub", 0, PathInvalid}, {"/github\n", 0, PathInvalid},
		{"/" + strings.Repeat("a", 65), 0, PathInvalid}, {"/github/" + strings.Repeat("a", 64), 0, PathNotFound},
		{"/gitlab", 0, PathNotFound}, {"/github/close_issue", 0, PathNotFound}, {leaf + "/x", 0, PathNotFound}, {"/*/create_issue", 0, PathNotFound},
		{"/github/*/create_issue", 0, PathNotFound}, {"/github/1", 0, PathNotFound},
	}
	for _, tt := range tests {
		cards, err := c.Children(tt.path)
		if tt.code == "" {
			if err != nil || len(cards) != tt.cards {
				t.Errorf("Children(%q) = %d cards, %v; want %d", tt.path, len(cards), err, tt.cards)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != tt.code || e.Path != tt.path || cards != nil {
			t.Errorf("Children(%q) = %v, %v; want %s", tt.path, cards, err, tt.code)
			continue
		}
		if strings.ContainsAny(e.Message, "\n\r") || len(e.Message) > 300 {
			t.Errorf("Children(%q): message %q", tt.path, e.Message)
		}
	}
	if cards, err := New(Limits{}).Children("/"); err != nil || cards == nil || len(cards) != 0 {
		t.Errorf("empty catalog: %v, %v", cards, err)
	}
}
