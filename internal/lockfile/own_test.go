package lockfile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/mcp"
)

// rosters are the listings of principals.
type rosters struct {
	of     map[string]*primitive.Listing
	judged int // calls of JudgeOwnLists
}

func (r *rosters) OwnListings(string) (all []*primitive.Listing) {
	for _, l := range r.of {
		all = append(all, l)
	}
	return all
}

func (r *rosters) JudgeOwnLists(string) { r.judged++ }

// lists makes a principal have tools, and returns the names of those that it may see.
func (r *rosters) lists(k *Keeper, principal string, tools ...string) string {
	l := files(tools...)
	r.of[principal] = &l
	return r.sees(k, principal)
}

func (r *rosters) sees(k *Keeper, principal string) string {
	l := k.Judge(r.of[principal])
	sink := &served{}
	sink.Update(l)
	return sink.tools("files")
}

// ownKeeper returns a Keeper of a server that lists for each principal.
func ownKeeper(path string, mode *Mode, fresh *[]Difference) (*Keeper, *rosters) {
	k, _ := keeper(path, mode, fresh)
	r := &rosters{of: map[string]*primitive.Listing{}}
	k.opts.Own = r
	return k, r
}

// acceptAll agrees to what operators see of the server.
func acceptAll(t *testing.T, k *Keeper) {
	t.Helper()
	if _, err := k.Accept(t.Context(), Acceptance{Server: "files", Hash: k.Status().Servers[0].Digest}); err != nil {
		t.Fatal(err)
	}
}

// TestVariants judges two principals with different texts of one tool each by itself, through a
// restart: none of them makes the lock, or what the other one sees, go back and forth.
func TestVariants(t *testing.T) {
	changed := strings.Replace(read, "Reads a file.", "Reads a file of the team.", 1)
	for _, mode := range []Mode{warn, hold, refuse} {
		t.Run(string(mode), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), Name)
			var fresh []Difference
			k, r := ownKeeper(path, &mode, &fresh)
			if got := r.lists(k, "ann", read, write); got != "read_file write_file" || len(fresh) != 0 {
				t.Fatalf("the first listing: %q, %v", got, fresh)
			}
			if got := r.lists(k, "bob", read); got != "read_file" || len(fresh) != 0 {
				t.Errorf("a listing with fewer tools: %q, %v", got, fresh)
			}
			before, _ := os.ReadFile(path)
			if !bytes.Contains(before, []byte(`"version": 1`)) {
				t.Errorf("a file without variants: %s", before)
			}
			want := map[Mode]string{warn: "read_file", hold: "", refuse: ""}[mode]
			if got := r.lists(k, "bob", changed); got != want || len(fresh) != 1 {
				t.Errorf("another text: %q, %v", got, fresh)
			}
			for range 3 {
				if ann, bob := r.sees(k, "ann"), r.sees(k, "bob"); ann != "read_file write_file" || bob != want || len(fresh) != 1 {
					t.Errorf("ann sees %q, bob %q; %d told", ann, bob, len(fresh))
				}
			}
			if s := k.Summary("files"); s != (Summary{}) {
				t.Errorf("all callers read %+v", s)
			}
			s := k.Status().Servers[0]
			if len(s.Differences) != 1 || s.Differences[0].Change != catalog.EntryChanged || s.Differences[0].Held != (mode != warn) {
				t.Fatalf("%+v", s)
			}
			if g := k.GateOf("files", r.of["bob"]); g.Allows(primitive.KindTool, "read_file") != (mode == warn) {
				t.Error("the gate of bob")
			}
			if g := k.GateOf("files", r.of["ann"]); !g.Allows(primitive.KindTool, "read_file") || g.Open() != nil {
				t.Error("the gate of ann")
			}
			if g := k.GateOf("files", r.of["bob"]); g != nil && (g.Allows(primitive.KindTool, "write_file") || g.Holds(primitive.KindTool, "write_file")) {
				t.Error("the gate of bob knows a tool that only ann has")
			}
			if _, err := k.Accept(t.Context(), Acceptance{Server: "files", Kind: primitive.KindTool, Name: "read_file", Hash: hashOf([]byte(read))}); err == nil {
				t.Error("another definition than the seen one is accepted")
			}
			acceptAll(t, k)
			k2, r2 := ownKeeper(path, &mode, &fresh)
			r2.of = r.of
			for _, keeper := range []*Keeper{k, k2, k} {
				if ann, bob := r.sees(keeper, "ann"), r.sees(keeper, "bob"); ann != "read_file write_file" || bob != "read_file" || len(fresh) != 1 {
					t.Errorf("accepted: ann sees %q, bob %q; %d told", ann, bob, len(fresh))
				}
			}
			if n := len(k2.Status().Servers[0].Differences); n != 0 || r.judged != 1 {
				t.Errorf("%d differences, judged again %d times", n, r.judged)
			}
			after, _ := os.ReadFile(path)
			if !bytes.Contains(after, []byte(`"version": 2`)) {
				t.Errorf("a file with variants: %s", after)
			}
			parsed, err := parse(after)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := parsed.Encode(); err != nil || !bytes.Equal(again, after) {
				t.Errorf("read and written: %s, %v", again, err)
			}
		})
	}
}

// TestOwnNotes gives a definition that no principal had and one that others have in another form the
// same note, which does not say that it has changed.
func TestOwnNotes(t *testing.T) {
	mode := warn
	k, r := ownKeeper("", &mode, nil)
	r.lists(k, "ann", read)
	other := files(strings.Replace(read, "Reads a file.", "Reads a file of the team.", 1), write)
	notes := k.Judge(&other).Notes
	if len(notes) != 2 {
		t.Errorf("%v", notes)
	}
	for key, note := range notes {
		if note != ownCardNote {
			t.Errorf("%s: %q", key.Name, note)
		}
	}
}

// TestVariantsBounded agrees to sixteen definitions of a tool: the oldest one that no principal has any
// more goes, and one that is in use stays.
func TestVariantsBounded(t *testing.T) {
	mode := hold
	k, r := ownKeeper("", &mode, nil)
	text := func(i int) string { return strings.Replace(read, "Reads", fmt.Sprint("Reads ", i, " times"), 1) }
	r.lists(k, "p0", text(0))
	for i := 1; i < maxVariants; i++ {
		r.lists(k, fmt.Sprint("p", i), text(i))
		acceptAll(t, k)
	}
	r.lists(k, "more", text(99))
	_, err := k.Accept(t.Context(), Acceptance{Server: "files", Hash: k.Status().Servers[0].Digest})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("one too many: %v", err)
	}
	delete(r.of, "p3")
	acceptAll(t, k)
	for i := range maxVariants {
		l := files(text(i))
		held := k.GateOf("files", &l).Holds(primitive.KindTool, "read_file")
		if held != (i == 3) {
			t.Errorf("definition %d is held: %t", i, held)
		}
	}
	if got := r.sees(k, "more"); got != "read_file" {
		t.Errorf("the newest: %q", got)
	}
}

// TestVariantsOfShared takes a file with variants for a server that lists the same for all callers, and
// keeps one definition once its operator agrees to it alone.
func TestVariantsOfShared(t *testing.T) {
	path, mode := filepath.Join(t.TempDir(), Name), hold
	own, r := ownKeeper(path, &mode, nil)
	changed := strings.Replace(read, "Reads", "Sends", 1)
	r.lists(own, "ann", read)
	r.lists(own, "bob", changed)
	acceptAll(t, own)
	k, sink := keeper(path, &mode, nil)
	for _, tool := range []string{read, changed} {
		k.Update(files(tool))
		if got := sink.tools("files"); got != "read_file" {
			t.Errorf("%s: %q", tool, got)
		}
	}
	k.Update(files(changed, write))
	acceptAll(t, k)
	if data, _ := os.ReadFile(path); !bytes.Contains(data, []byte(`"version": 1`)) {
		t.Errorf("%s", data)
	}
}

// TestVariantsInFile refuses a file with variants that are none.
func TestVariantsInFile(t *testing.T) {
	for _, others := range []string{`[null]`, `[{"hash": ""}]`, `[{"hash":"a","others":[{"hash":"b"}]}]`, "[" + strings.TrimSuffix(strings.Repeat(`{"hash":"a"},`, maxVariants), ",") + "]"} {
		data := `{"version":2,"servers":{"files":{"first_seen":"2026-11-22","tools":{"read_file":{"hash":"x","first_seen":"2026-11-22","others":` + others + `}}}}}`
		if _, err := parse([]byte(data)); err == nil {
			t.Errorf("%s is read", others)
		}
	}
}

// TestOwnLockBroken serves nothing of a new server while the lock cannot be used.
func TestOwnLockBroken(t *testing.T) {
	path, mode := filepath.Join(t.TempDir(), Name), hold
	if err := os.WriteFile(path, []byte("<<<"), 0o644); err != nil {
		t.Fatal(err)
	}
	k, r := ownKeeper(path, &mode, nil)
	if got := r.lists(k, "ann", read); got != "" {
		t.Errorf("%q", got)
	}
	if g := k.GateOf("files", r.of["ann"]); g.Open() == nil || g.Shows(primitive.KindTool, []byte(read)) {
		t.Error("the gate is open")
	}
	if g := k.GateOf("files", nil); g.Open() == nil {
		t.Error("the gate of a listing that is not known is open")
	}
	_, err := k.Accept(context.Background(), Acceptance{Server: "files"})
	if kind, _ := mcp.KindOf(err); kind != mcp.KindInvalidRequest {
		t.Errorf("%v", err)
	}
	if s := k.Status(); s.Error == "" || !slices.ContainsFunc(s.Servers, func(s ServerStatus) bool { return s.State == StateRefused }) {
		t.Errorf("%+v", s)
	}
}
