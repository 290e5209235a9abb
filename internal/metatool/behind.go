package metatool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/token"
)

// A model that does not know what is behind tool_browse does not ask it. So the instructions and the
// definition of tool_browse name the servers, those included that have not come up yet. The words
// depend on nothing but the names of the servers that may exist for the caller: they stay the same
// while servers come and go, and a prompt that holds them stays in its provider's cache. The first
// three definitions have at most 680 tokens with it, so the one of tool_browse names fewer.
const (
	behindTokens  = 140 // of the names in the instructions, so that the sentence has at most 150
	definedTokens = 16  // of the names in the definition, so that the first three have at most 680
	behindChars   = 40  // of one name
)

// gatewayList is the tools/list result of gateway mode for one snapshot.
type gatewayList struct {
	of     *catalog.Catalog
	behind string // which servers there are, for the instructions; "" for none
	result []byte
}

// gateway returns the list of gateway mode for the current snapshot.
func (l *listing) gateway() *gatewayList {
	var names []string
	if known, ok := l.upstreams.(reportsMissing); ok { // before the snapshot, so that no server is in neither
		for _, m := range known.Missing() {
			names = append(names, cmp.Or(m.Namespace, m.Upstream))
		}
	}
	s := l.upstreams.Snapshot()
	if list := l.gated.Load(); list != nil && list.of == s.Catalog {
		return list
	}
	names = append(names, s.Catalog.Namespaces()...)
	slices.Sort(names)
	names = slices.Compact(names)
	list := &gatewayList{of: s.Catalog, behind: behind(names, behindTokens)}
	out := append([]byte(`{"tools":[`), l.meta.definitions(s.hasResources(), s.hasPrompts(), behind(names, definedTokens))...)
	list.result = slices.Clip(append(out, `]}`...))
	l.gated.Store(list)
	return list
}

// behind says in one sentence which servers there are, with at most so many tokens of names, "" for none.
// Where they do not all fit, servers whose names start with the same word are counted together, the
// largest groups first.
func behind(names []string, tokens int) string {
	for i, name := range names {
		names[i] = text.Fit(name, behindChars)
	}
	if len(names) == 0 {
		return ""
	}
	all := strings.Join(names, ", ")
	if token.Count(all) <= tokens {
		return "Servers: " + all + "."
	}
	groups := map[string][]string{}
	for _, name := range names {
		first := name
		if words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_./ ", r) }); len(words) > 0 {
			first = words[0]
		}
		groups[first] = append(groups[first], name)
	}
	told, line := 0, ""
	for _, first := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), strings.Compare(a, b))
	}) {
		one := groups[first][0]
		if n := len(groups[first]); n > 1 {
			one = fmt.Sprintf("%s (%d)", first, n)
		}
		next := line + one + ", "
		if token.Count(next) > tokens {
			break
		}
		line, told = next, told+len(groups[first])
	}
	if told == 0 {
		return fmt.Sprintf("%d servers.", len(names))
	}
	line = fmt.Sprintf("%d servers: %s", len(names), strings.TrimSuffix(line, ", "))
	if rest := len(names) - told; rest > 0 {
		line += fmt.Sprintf(" and %d more", rest)
	}
	return line + "."
}

// withBehind returns the definition of a tool with one more sentence in its description.
func withBehind(definition, sentence string) string {
	if sentence == "" {
		return definition
	}
	quoted := string(rawjson.AppendString(nil, " "+sentence))
	return strings.Replace(definition, `","inputSchema"`, quoted[1:len(quoted)-1]+`","inputSchema"`, 1)
}
