package roster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func computer(name, node string, gen uint64) *Member {
	return &Member{Name: name, Role: Computer, Node: node, SID: node + "." + name, Gen: gen, Principal: "p", Dialect: 2}
}

func agentAt(node string) *Member {
	return &Member{Name: "o", Role: Agent, Node: Everywhere, Nodes: []string{node}, SID: node + ".a"}
}

func TestJoin(t *testing.T) {
	terms := Terms{Max: 3}
	o := &Office{ID: "o"}
	join := func(m *Member, t Terms) (*Member, error) { return o.Join(m, t) }
	desk := computer("desk", "aaaaaa", 1)
	if replaced, err := join(desk, terms); replaced != nil || err != nil {
		t.Fatal(replaced, err)
	}
	if replaced, err := join(desk, terms); replaced != nil || err != nil || len(o.Computers) != 1 {
		t.Errorf("its own effect is not recognised: %v %v", replaced, err)
	}
	var taken *TakenError
	twin := computer("desk", "bbbbbb", 1)
	if _, err := join(twin, terms); !errors.As(err, &taken) || taken.Holder != desk {
		t.Errorf("a taken name: %v", err)
	}
	if _, err := join(twin, Terms{Max: 3, May: func() error { return errors.New("no") }, Free: desk.SID}); err == nil || o.Computers["desk"] != desk {
		t.Error("May has no last word")
	}
	if replaced, err := join(twin, Terms{Max: 3, Free: desk.SID}); err != nil || replaced != desk || o.Computers["desk"] != twin {
		t.Errorf("a place that is free: %v %v", replaced, err)
	}
	for i, name := range []string{"b", "c"} {
		if _, err := join(computer(name, "aaaaaa", uint64(i)), terms); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := join(computer("d", "aaaaaa", 9), terms); !errors.Is(err, ErrFull) {
		t.Errorf("over the bound: %v", err)
	}
	single := computer("alone", "aaaaaa", 1)
	single.Alone = true
	if _, err := join(single, Terms{Max: 9}); !errors.Is(err, ErrSingle) {
		t.Errorf("a dialect of one Computer: %v", err)
	}
	if !o.Drop("aaaaaa") || len(o.Computers) != 1 || o.Drop("aaaaaa") {
		t.Errorf("after the end of a node: %v", o.Computers)
	}
	if o.Leave(desk) || !o.Leave(twin) || !o.Empty() {
		t.Errorf("after the last one: %v", o.Computers)
	}
}

// TestKeys: a proven key takes its place at once, but not back from the process that took it last.
func TestKeys(t *testing.T) {
	o := &Office{ID: "o"}
	keyed := func(instance, node string) *Member {
		m := computer("desk", node, 1)
		m.Key, m.Instance = "k", instance
		return m
	}
	terms := Terms{Max: 3}
	first, second := keyed("i1", "aaaaaa"), keyed("i2", "bbbbbb")
	_, _ = o.Join(first, terms)
	if replaced, err := o.Join(second, terms); err != nil || replaced != first || second.Ousted != "i1" {
		t.Fatal(replaced, err, second.Ousted)
	}
	var taken *TakenError
	if _, err := o.Join(keyed("i1", "cccccc"), terms); !errors.As(err, &taken) {
		t.Errorf("the process that was replaced comes back: %v", err)
	}
	if _, err := o.Join(keyed("i3", "cccccc"), terms); err != nil {
		t.Errorf("a third process: %v", err)
	}
	stranger := computer("desk", "dddddd", 1)
	if _, err := o.Join(stranger, terms); !errors.As(err, &taken) || stranger.SameOwner(taken.Holder) {
		t.Errorf("without the key: %v", err)
	}
}

// TestEverywhere: an Agent at several nodes is one member, until it has left the last of them.
func TestEverywhere(t *testing.T) {
	o := &Office{ID: "o"}
	for _, node := range []string{"aaaaaa", "bbbbbb", "cccccc"} {
		if _, err := o.Join(agentAt(node), Terms{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.Agent.Nodes) != 3 {
		t.Fatal(o.Agent.Nodes)
	}
	second := agentAt("bbbbbb")
	second.SID = "bbbbbb.other"
	var taken *TakenError
	if _, err := o.Join(second, Terms{}); !errors.As(err, &taken) {
		t.Errorf("a second one at a node: %v", err)
	}
	if !o.Leave(agentAt("aaaaaa")) || o.Leave(agentAt("aaaaaa")) || !o.Drop("bbbbbb") || o.Agent == nil {
		t.Fatalf("after two nodes: %v", o.Agent)
	}
	if !o.Leave(agentAt("cccccc")) || !o.Empty() {
		t.Errorf("after all nodes: %v", o.Agent)
	}
}

// TestRevisions: a document that is read with the help of an earlier one says what it says by itself, whatever has come
// and gone in between. Nothing of a clone is shared with it.
func TestRevisions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var before *Office
	office := &Office{ID: "o"}
	for rev := range 300 {
		for range 1 + r.IntN(40) {
			name := fmt.Sprint("c", r.IntN(100))
			if c := office.Computers[name]; c != nil {
				office.Leave(c)
			} else if _, err := office.Join(computer(name, "aaaaaa", uint64(rev)), Terms{Max: 1000}); err != nil {
				t.Fatal(err)
			}
		}
		if rev%3 == 0 {
			_, _ = office.Join(agentAt(fmt.Sprint("n", rev)), Terms{})
		}
		value, err := office.Encode()
		if err != nil {
			t.Fatal(err)
		}
		alone, err := decode(value, nil)
		if err != nil {
			t.Fatal(err)
		}
		now, err := decode(value, before)
		if err != nil || !reflect.DeepEqual(now, alone) {
			t.Fatalf("revision %d: %v\n%s", rev, err, value)
		}
		if office = now.clone(); office.Agent == now.Agent || len(office.Computers) != len(now.Computers) {
			t.Fatal("a clone is another office")
		}
		for name, c := range office.Computers {
			if now.Computers[name] == c {
				t.Fatal("a clone shares a member")
			}
			c.Peer = t
		}
		before = now
	}
}

// BenchmarkRevision measures the next revision of an office of 20 Computers: a change of it, and its document at a node
// that knows the one before.
func BenchmarkRevision(b *testing.B) {
	o := &Office{ID: "o"}
	for i := range 20 {
		_, _ = o.Join(computer(fmt.Sprintf("computer%02d", i), "aaaaaa", uint64(i)), Terms{Max: 100})
	}
	value, _ := o.Encode()
	before, err := decode(value, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		next := before.clone()
		if _, err := next.Join(computer("computer10x", "bbbbbb", uint64(i)), Terms{Max: 100}); err != nil {
			b.Fatal(err)
		}
		value, err := next.Encode()
		if err == nil {
			_, err = decode(value, before)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestDocument: members that another build has written stay. One of this build takes at most 400 bytes.
func TestDocument(t *testing.T) {
	value := `{"v":1,"office":"o","later":{"x":1},"agent":{"name":"o","role":"agent","sid":"s","new":[1]},"computers":[{"name":"desk","role":"computer","node":"aaaaaa","sid":"aaaaaa.x","gen":4,"new":true}]}`
	o, err := decode([]byte(value), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &Member{
		Name: "laptop", Role: Computer, Node: "bbbbbb", SID: "bbbbbb." + strings.Repeat("s", 20) + ".zz", Gen: 1 << 40, Dialect: 4, Version: "0.4.2", MCP: true,
		Principal: "ann@example.com", Key: strings.Repeat("k", 51), Instance: strings.Repeat("i", 26), Ousted: strings.Repeat("i", 26),
	}
	if _, err := o.Join(m, Terms{Max: 9}); err != nil {
		t.Fatal(err)
	}
	out, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{`"later":{"x":1}`, `"new":[1]`, `"new":true`} {
		if !bytes.Contains(out, []byte(kept)) {
			t.Errorf("%s is lost: %s", kept, out)
		}
	}
	if size := len(out) - len(value); size > 400 {
		t.Errorf("a member takes %d bytes", size)
	}
	again, err := decode(out, nil)
	if err != nil || len(again.Computers) != 2 || again.Computers["laptop"].Key != m.Key || again.Computers["laptop"].Gen != m.Gen {
		t.Errorf("%v %v", again, err)
	}
	for _, bad := range []string{``, `{}`, `{"v":2,"office":"o"}`, `{"v":1,"office":"o","agent":{"name":"x","role":"computer"}}`, `{"v":1,"computers":[{}]}`} {
		if _, err := decode([]byte(bad), nil); !errors.Is(err, errDocument) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	var newer *Newer
	if _, err := decode([]byte(`{"v":2,"office":["of another type"]}`), nil); !errors.As(err, &newer) || newer.Version != 2 {
		t.Errorf("a later version: %v", err)
	}
}

// FuzzMessage: a message arrives as it was sent, and a bad one is an error.
func FuzzMessage(f *testing.F) {
	f.Add("client:tool_call", "o", "aaaaaa.s.1", []byte(`{"a":1}`), []byte("attached"), "1,2;3,", uint64(3))
	f.Fuzz(func(t *testing.T, event, office, to string, arg, attached []byte, lens string, seq uint64) {
		m := &Message{
			Op: OpCall, From: "aaaaaa", Event: event, Office: office, To: to, Seq: seq, Agent: Caller{Name: strings.ToValidUTF8(office, ""), SID: "s"},
			Args: []json.RawMessage{arg, arg}, Attachments: [][]byte{attached},
		}
		h, body := m.pack()
		got, err := unpack(h, body)
		if err != nil || got.Event != event || got.Office != office || got.To != to || got.Seq != seq || got.Agent != m.Agent ||
			len(got.Args) != 2 || !bytes.Equal(got.Args[1], arg) || len(got.Attachments) != 1 || !bytes.Equal(got.Attachments[0], attached) {
			t.Fatalf("%v: %+v", err, got)
		}
		h.Set(headerLens, lens)
		if got, err := unpack(h, body); err == nil {
			size := 0
			for _, a := range got.Args {
				size += len(a)
			}
			for _, a := range got.Attachments {
				size += len(a)
			}
			if size != len(body) {
				t.Fatalf("%q: %d of %d bytes", lens, size, len(body))
			}
		}
	})
}
