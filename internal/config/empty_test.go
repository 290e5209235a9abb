package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// TestEmptyLists: what an empty list means is decided for each list of the configuration, by the tag
// empty, because a template may render one where the operator means none, and a list that restricts
// something restricts nothing where it is left out. A list whose key without a value would widen what it
// restricts is refused, or means none.
func TestEmptyLists(t *testing.T) {
	decided := map[strict.Empty]int{}
	// parsed returns the problems of a configuration with one value, and the wrapper of its path.
	parsed := func(within func(string) string, path, value string) []string {
		_, _, err := Parse("weir.json", []byte(within(value)), Options{})
		var of []string
		if broken, ok := err.(*Error); ok {
			for _, p := range broken.Problems {
				if p.Key == path {
					of = append(of, p.Message)
				}
			}
		}
		return of
	}
	var walk func(typ reflect.Type, path string, within func(string) string)
	walk = func(typ reflect.Type, path string, within func(string) string) {
		for _, f := range strict.Fields(typ) {
			here := strict.Join(path, f.Key)
			one := func(value string) string { return within(fmt.Sprintf(`{%q:%s}`, f.Key, value)) }
			kind, empty := f.Kind(), "[]"
			switch kind {
			case strict.KindObject:
				walk(f.Object(), here, one)
				continue
			case strict.KindNamed:
				empty = "{}"
				if f.Object() != reflect.TypeFor[Server]() { // what is wrong in an entry is no problem of the file
					walk(f.Object(), here+".x", func(value string) string { return one(`{"x":` + value + `}`) })
				}
			case strict.KindObjects:
				walk(f.Object(), here+"[0]", func(value string) string { return one(`[` + value + `]`) })
			case strict.KindTexts:
			default:
				if f.Empty != "" {
					t.Errorf("%s is no list, and says what an empty one means", here)
				}
				continue
			}
			decided[f.Empty]++
			says := func(value, what string) bool {
				return strings.Contains(strings.Join(parsed(one, here, value), "\n"), what)
			}
			switch f.Empty {
			case strict.EmptySame:
			case strict.EmptyNone, strict.EmptyRefused:
				if says(empty, "is empty; name at least one") != (f.Empty == strict.EmptyRefused) {
					t.Errorf("%s: %s: %q", here, empty, parsed(one, here, empty))
				}
				if !says("null", "has nothing behind it") {
					t.Errorf("%s: null: %q", here, parsed(one, here, "null"))
				}
			default:
				t.Errorf(`%s: what does an empty list mean? Write empty:"refused" where a key that is left out means all, empty:"none" where it means none, empty:"same" where both let nothing in`, here)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", func(value string) string { return value })
	walk(reflect.TypeFor[Server](), "mcpServers.x", func(value string) string {
		return `{"trust":1,"mcpServers":{"x":` + value + `}}` // something else is wrong, so that the file is
	})
	if decided[strict.EmptySame] < 20 || decided[strict.EmptyRefused] < 15 || decided[strict.EmptyNone] == 0 {
		t.Errorf("only some lists were seen: %v", decided)
	}
}

// TestTokenForNoAgent: a token with an empty list of agents opens nothing, one without the key opens all.
func TestTokenForNoAgent(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	parse := func(more string) *Config {
		c, _, err := Parse("weir.json", []byte(`{"auth":{"tokens":[{"name":"t","sha256":"`+hash+`"`+more+`}]},"mcpServers":{"up":{"url":"http://127.0.0.1:1/mcp"}}}`), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	none, all, some := parse(`,"agents":[],"register":["stock"]`), parse(``), parse(`,"agents":["up"]`)
	if a := &none.Auth; !a.Scoped("t") || a.Reaches("t", "up") || a.SeesMetrics("t") || !a.Registers("t", "stock") {
		t.Errorf("an empty list: %+v", a.Tokens)
	}
	if a := &all.Auth; a.Scoped("t") || !a.Reaches("t", "up") || !a.SeesMetrics("t") {
		t.Errorf("no list: %+v", a.Tokens)
	}
	if a := &some.Auth; !a.Scoped("t") || !a.Reaches("t", "up") || a.Reaches("t", "other") {
		t.Errorf("one agent: %+v", a.Tokens)
	}
	if change := Diff(all, none); change.Empty() {
		t.Error("a reload does not see the empty list")
	}
}
