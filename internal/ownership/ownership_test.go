package ownership

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestFold(t *testing.T) {
	for _, same := range [][]string{
		{"desk", "Desk", "DESK", " desk", "desk\t", "\u00a0desk", "ｄｅｓｋ", "ⅾesk", "de\u017fk"}, // wide letters, a Roman numeral, a long s
		{"straße", "STRASSE", "Straße"},
		{"é", "e\u0301", "É"},
		{"ﬁles", "files", "FILES"},
		{"", " ", "\n"},
	} {
		want := Fold(same[0])
		for _, name := range same {
			if got := Fold(name); got != want {
				t.Errorf("%q is %q, and %q is %q", name, got, same[0], want)
			}
			if again := Fold(Fold(name)); again != Fold(name) {
				t.Errorf("%q folds to %q and then to %q", name, Fold(name), again)
			}
		}
	}
	for _, pair := range [][2]string{{"desk", "desk1"}, {"a b", "a_b"}, {"desk-excel", "desk.excel"}} {
		if Fold(pair[0]) == Fold(pair[1]) {
			t.Errorf("%q and %q are one name", pair[0], pair[1])
		}
	}
}

func FuzzFold(f *testing.F) {
	for _, s := range []string{"desk", "ſ", "ΐ", "İ", "ﬀ", "\u0345", "ǰ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if once, twice := Fold(s), Fold(Fold(s)); once != twice {
			t.Errorf("%q folds to %q and then to %q", s, once, twice)
		}
	})
}

// server is what a server of a name wants.
func server(name string) Want {
	return Want{Names: []string{name}, Namespaces: []string{strings.ToLower(name)}}
}

func taken(t *testing.T, err error, texts ...string) {
	t.Helper()
	if !errors.As(err, new(*takenError)) {
		t.Errorf("got %v, want a name that is taken", err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("no %s in %q", text, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// A name belongs to the first owner for good, however another one writes it.
func TestClaim(t *testing.T) {
	var l Ledger
	ann, bob := Owner{Kind: Agent, ID: "ann", Name: "stock"}, Owner{Kind: Agent, ID: "bob", Name: "stock"}
	must(t, l.Claim(ann, server("stock")))
	must(t, l.Claim(ann, server("stock")))
	for _, name := range []string{"stock", "Stock", "STOCK", " stock"} {
		taken(t, l.Claim(bob, Want{Names: []string{name}}), `belongs to the agent "stock" of "ann"`)
	}
	taken(t, l.Claim(Owner{Kind: Agent, ID: "ann", Name: "Stock"}, server("Stock")), `"Stock" counts as "stock"`)
	taken(t, l.Claim(Owner{Kind: Route, Name: "stock"}, server("stock")), `"ann"`)
	// Another name with the same namespace.
	taken(t, l.Claim(bob, Want{Names: []string{"other"}, Namespaces: []string{"stock"}}), `the namespace "stock" belongs to`)
	// All or nothing: the refused claim has left "other" free.
	must(t, l.Claim(Owner{Kind: Agent, ID: "eve", Name: "other"}, server("other")))
	// A Computer's name is of another kind than a server's.
	desk := Owner{Kind: Computer, ID: "weir/local", Name: "stock"}
	must(t, l.Claim(desk, Want{Computers: []string{"stock"}}))
	if o, ok := l.ComputerOf("stock"); !ok || o != desk {
		t.Errorf("%v, %t", o, ok)
	}
	if o, ok := l.ComputerOf("Stock"); ok {
		t.Errorf("a name that is written differently is that of %v", o)
	}
}

// The configuration has what it names, and an owner of before has it again later.
func TestConfigure(t *testing.T) {
	var l Ledger
	ann, bob := Owner{Kind: Agent, ID: "ann", Name: "stock"}, Owner{Kind: Agent, ID: "bob", Name: "files"}
	must(t, l.Claim(ann, server("stock")))
	of := func(names ...string) map[string]string {
		m := map[string]string{}
		for _, name := range names {
			m[name] = "mcpServers." + name
		}
		return m
	}
	l.Configure(of("Stock", "files"), of("stock", "files"))
	taken(t, l.Claim(ann, server("stock")), "mcpServers.Stock")
	taken(t, l.Claim(bob, server("FILES")), "mcpServers.files")
	l.Configure(nil, nil)
	must(t, l.Claim(ann, server("stock")))
	taken(t, l.Claim(bob, server("files")), "mcpServers.files", "restart weir")
	l.Configure(of("files"), nil)
	taken(t, l.Claim(bob, server("files")), "mcpServers.files")
}

// What is bound to a key belongs to its owner before it has come, with all that
// begins so, and also where another one has had it.
func TestBind(t *testing.T) {
	var l Ledger
	early := Owner{Kind: Computer, ID: "weir/local", Name: "Desk-Excel"}
	must(t, l.Claim(early, server("Desk-Excel")))
	desk := Owner{Kind: Computer, ID: "key", Name: "desk", Key: true}
	l.Bind([]Binding{{
		Owner: desk, Want: Want{Names: []string{"desk"}, Namespaces: []string{"desk"}, Computers: []string{"desk"}},
		Names: []string{"desk-", "desk."}, Namespaces: []string{"desk-"},
	}})
	thief := Owner{Kind: Agent, ID: "ann", Name: "x"}
	for _, w := range []Want{
		{Names: []string{"desk"}}, {Names: []string{" DESK"}}, {Names: []string{"desk-excel"}}, {Names: []string{"Desk.word"}}, {Namespaces: []string{"desk"}},
		{Namespaces: []string{"desk-new"}}, {Computers: []string{"ｄesk"}}, {Computers: []string{"Desk.Excel"}},
	} {
		taken(t, l.Claim(thief, w), `the Computer "desk", which has a key`)
		must(t, l.Claim(desk, w))
	}
	taken(t, l.Claim(early, server("Desk-Excel")), `the Computer "desk"`)
	must(t, l.Claim(thief, Want{Names: []string{"desktop", "desk2"}, Namespaces: []string{"desktop"}, Computers: []string{"desktop"}}))
	l.Bind(nil)
	taken(t, l.Claim(thief, Want{Names: []string{"desk"}}), `the Computer "desk"`)
}

// The ledger is bounded, for all and for each: whoever uses up its share takes none
// of the others', and has what it had.
func TestLedgerIsBounded(t *testing.T) {
	var l Ledger
	claim := func(id, name string) error {
		return l.Claim(Owner{Kind: Agent, ID: id, Name: name}, Want{Names: []string{name}})
	}
	for i := range maxHeldByOne {
		must(t, claim("ann", fmt.Sprint("a", i)))
	}
	if err := claim("ann", "more"); !errors.As(err, new(*Full)) || !strings.Contains(err.Error(), "restart weir") {
		t.Errorf("over its share: %v", err)
	}
	must(t, claim("ann", "a7"))
	for i := range maxHeld - maxHeldByOne {
		must(t, claim(fmt.Sprint("p", i/1000), fmt.Sprint("p", i)))
	}
	if err := claim("eve", "more"); !errors.As(err, new(*Full)) || len(l.held) != maxHeld {
		t.Errorf("over the bound: %v, %d names", err, len(l.held))
	}
}

// Of many that want one name at once, one gets it.
func TestClaimConcurrently(t *testing.T) {
	var l Ledger
	var wg sync.WaitGroup
	won := make(chan int, 32)
	for i := range cap(won) {
		wg.Go(func() {
			o := Owner{Kind: Agent, ID: fmt.Sprint(i), Name: "one"}
			if l.Claim(o, server("one")) == nil {
				won <- i
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d owners have the name", len(won))
	}
}
