package linearity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/linearity"
)

func TestMain(m *testing.M) { leak.Main(m) }

type op = linearity.Operation

const never = linearity.Never

func join(call, end int64, place, who string, out linearity.Joined) op {
	return op{Input: linearity.Join{Place: place, Who: who, Ends: never}, Output: out, Call: call, Return: end}
}

func ends(o op, at int64) op {
	in, _ := o.Input.(linearity.Join)
	in.Ends = at
	o.Input = in
	return o
}

func evicts(o op) op {
	in, _ := o.Input.(linearity.Join)
	in.Evicts = true
	o.Input = in
	return o
}

func leave(call, end int64, who string) op {
	return op{Input: linearity.Leave{Who: who}, Call: call, Return: end}
}

func read(at int64, who ...string) op {
	return op{Input: linearity.Read{}, Output: linearity.MembersOf(who), Call: at, Return: at + 1}
}

func fetch(call, end int64, out linearity.Fetched) op {
	return op{Input: linearity.Fetch{}, Output: out, Call: call, Return: end}
}

// TestModels: histories that one machine can give are accepted, and each kind of mistake of a cluster is found.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		name  string
		model linearity.Model
		ok    bool
		ops   []op
	}{
		{"one fetch gets the rows", linearity.Tokens(), true, []op{fetch(1, 2, linearity.Rows), fetch(3, 4, linearity.Refused)}},
		{"the later answer wins", linearity.Tokens(), true, []op{fetch(1, 6, linearity.Refused), fetch(2, 5, linearity.Rows)}},
		{"a lost answer spends the token", linearity.Tokens(), true, []op{fetch(1, never, linearity.Lost), fetch(3, 4, linearity.Refused)}},
		{"a lost answer spends nothing", linearity.Tokens(), true, []op{fetch(1, never, linearity.Lost), fetch(3, 4, linearity.Rows)}},
		{"its node has ended", linearity.Tokens(), true, []op{{Input: linearity.End{}, Call: 1, Return: 2}, fetch(3, 4, linearity.Refused)}},
		{"rows twice", linearity.Tokens(), false, []op{fetch(1, 2, linearity.Rows), fetch(3, 4, linearity.Rows)}},
		{"rows twice at a time", linearity.Tokens(), false, []op{fetch(1, 4, linearity.Rows), fetch(2, 3, linearity.Rows)}},
		{"rows after a refusal", linearity.Tokens(), false, []op{fetch(1, 2, linearity.Refused), fetch(3, 4, linearity.Rows)}},
		{"rows after its node has ended", linearity.Tokens(), false, []op{{Input: linearity.End{}, Call: 1, Return: 2}, fetch(3, 4, linearity.Rows)}},
		{"refused for no reason", linearity.Tokens(), false, []op{fetch(1, 2, linearity.Refused)}},

		{"one after the other", linearity.Offices(2), true, []op{join(1, 2, "d", "a", linearity.In), join(3, 4, "d", "b", linearity.Taken), leave(5, 6, "a"), join(7, 8, "d", "b", linearity.In), read(9, "b")}},
		{"a join during a leave", linearity.Offices(2), true, []op{join(1, 2, "d", "a", linearity.In), leave(3, 8, "a"), join(4, 5, "d", "b", linearity.In)}},
		{"a connection that ended", linearity.Offices(2), true, []op{ends(join(1, 2, "d", "a", linearity.In), 3), join(4, 5, "d", "b", linearity.In), read(6, "b")}},
		{"a silent holder", linearity.Offices(2), true, []op{join(1, 2, "d", "a", linearity.In), evicts(join(3, 4, "d", "b", linearity.In)), read(5, "b")}},
		{"put out for another", linearity.Offices(2), true, []op{join(1, 2, "d", "a", linearity.In), evicts(join(3, 4, "d", "b", linearity.In)), {Input: linearity.Out{Who: "a"}, Call: 4, Return: 5}}},
		{"put out with its node", linearity.Offices(2), true, []op{ends(join(1, 2, "d", "a", linearity.In), 3), {Input: linearity.Out{Who: "a"}, Call: 4, Return: 5}}},
		{"put out for no reason", linearity.Offices(2), false, []op{join(1, 2, "d", "a", linearity.In), {Input: linearity.Out{Who: "a"}, Call: 4, Return: 5}}},
		{"a lost answer that holds the place", linearity.Offices(2), true, []op{ends(join(1, never, "d", "a", linearity.Unknown), 1), join(3, 4, "d", "b", linearity.Taken)}},
		{"Computers and an Agent", linearity.Offices(1), true, []op{join(1, 2, "d", "a", linearity.In), join(3, 4, linearity.Agent, "g", linearity.In), join(5, 6, "e", "b", linearity.Full), read(7, "a", "g")}},
		{"a place of two members", linearity.Offices(2), false, []op{join(1, 2, "d", "a", linearity.In), join(3, 4, "d", "b", linearity.In)}},
		{"two members at a time", linearity.Offices(2), false, []op{join(1, 4, "d", "a", linearity.In), join(2, 3, "d", "b", linearity.In)}},
		{"refused by a member that has left", linearity.Offices(2), false, []op{join(1, 2, "d", "a", linearity.In), leave(3, 4, "a"), join(5, 6, "d", "b", linearity.Taken)}},
		{"refused by no member", linearity.Offices(2), false, []op{join(1, 2, "d", "a", linearity.Taken)}},
		{"gone before its connection ended", linearity.Offices(2), false, []op{ends(join(1, 2, "d", "a", linearity.In), 9), join(3, 4, "d", "b", linearity.In)}},
		{"too many Computers", linearity.Offices(1), false, []op{join(1, 2, "d", "a", linearity.In), join(3, 4, "e", "b", linearity.In)}},
		{"full without members", linearity.Offices(1), false, []op{join(1, 2, "d", "a", linearity.In), leave(3, 4, "a"), join(5, 6, "e", "b", linearity.Full)}},
		{"a member is lost", linearity.Offices(2), false, []op{join(1, 2, "d", "a", linearity.In), read(3)}},
		{"a member that never joined", linearity.Offices(2), false, []op{read(3, "a")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h linearity.History
			for _, o := range c.ops {
				o.Part = "it"
				h.Add(o)
			}
			err := h.Check(c.model, time.Minute)
			if c.ok && err != nil || !c.ok && (err == nil || !strings.Contains(err.Error(), "it: ")) {
				t.Errorf("%v, want an order: %v", err, c.ok)
			}
		})
	}
}

// Example checks what two clients saw of a URL that works once.
func Example() {
	var h linearity.History
	for range 2 {
		call := h.Now()
		h.Add(linearity.Operation{Part: "the token", Input: linearity.Fetch{}, Output: linearity.Rows, Call: call, Return: h.Now()})
	}
	fmt.Println(h.Check(linearity.Tokens(), time.Second) != nil)
	// Output: true
}
