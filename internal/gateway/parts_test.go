package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/part"
)

// TestEveryKeyHasOnePart: each top-level key of the configuration belongs to one part.
func TestEveryKeyHasOnePart(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for _, p := range new(Gateway).table() {
		for _, k := range p.Keys {
			if before := owner[k.Name]; before != "" {
				t.Errorf("%s belongs to %s and to %s", k.Name, before, p.Name)
			}
			owner[k.Name] = p.Name
		}
	}
	for _, f := range strict.Fields(reflect.TypeFor[config.Config]()) {
		if owner[f.Key] == "" {
			t.Errorf("%s belongs to no part", f.Key)
		}
		delete(owner, f.Key)
	}
	for key, name := range owner {
		t.Errorf("%s has the key %s, which does not exist", name, key)
	}
}

// TestOrderOfClose writes down in which order the parts of a gateway end. A part ends before the parts
// that it uses.
func TestOrderOfClose(t *testing.T) {
	t.Parallel()
	want := []string{
		"last listings", "offices", "first listings", "trace", "agents", "placement", "definitions", "upstreams", "agents' connections",
		"listings", "sign-ins", "catalog", "ranking", "programs", "calls", "tables", "bodies", "sessions", "audit", "events", "results", "store", "spans",
	}
	var got []string
	for _, p := range slices.Backward(new(Gateway).table()) {
		if p.Close != nil {
			got = append(got, p.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("they end in the order\n%q, want\n%q", got, want)
	}
}

// TestRefusedReloadChangesNothing: a part that cannot use a configuration keeps all of it out.
func TestRefusedReloadChangesNothing(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) *config.Config {
		t.Helper()
		c, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\n"+text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := read("mode: gateway\n")
	log := observe.WrapLog(slog.DiscardHandler, first)
	g, err := New(t.Context(), first, Options{Logger: log.Logger})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context())
	face := &countingFace{}
	if err := g.Reload(read("mode: proxy\nagents: {invocation: {private_key: "+key+"}}\n"), face, log); err == nil || !strings.Contains(err.Error(), "agents.invocation.private_key") {
		t.Errorf("the reload: %v", err)
	}
	if g.Config() != first || face.applied != 0 {
		t.Errorf("the configuration is that of mode %s, and the face applied %d", g.Config().Mode, face.applied)
	}
	if err := g.Reload(read("mode: proxy\n"), face, log); err != nil || g.Config().Mode != config.ModeProxy || face.applied != 1 {
		t.Errorf("a good one: %v, mode %s, %d", err, g.Config().Mode, face.applied)
	}
}

// TestReloadInTwoSteps: where the last part refuses a configuration, no part has put it in force, although all others have
// prepared it.
func TestReloadInTwoSteps(t *testing.T) {
	read := func(text string) *config.Config {
		t.Helper()
		c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := read("mcpServers: {old: {url: \"http://127.0.0.1:1/mcp\"}}\nagents: {limits: {in_flight: 2}}\n")
	log := observe.WrapLog(slog.DiscardHandler, first)
	g, err := New(t.Context(), first, Options{Logger: log.Logger})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context())
	var prepared []string
	for i, p := range g.parts {
		if p.Prepare != nil {
			g.parts[i].Prepare = func(r part.Reload) (func(), error) {
				prepared = append(prepared, p.Name)
				return p.Prepare(r)
			}
		}
	}
	refused, asked := errors.New("the last part refuses"), len(g.parts)
	g.parts = append(g.parts, part.Part{Name: "last", Prepare: func(part.Reload) (func(), error) { return nil, refused }})
	next := read("mode: proxy\nmcpServers: {new: {url: \"http://127.0.0.1:1/mcp\"}}\nagents: {limits: {in_flight: 3}}\naudit: {dir: " + t.TempDir() + "}\n")
	state := func() string {
		_, hasOld := g.manager.Upstream("old")
		_, hasNew := g.manager.Upstream("new")
		return fmt.Sprintf("mode %s, old %t, new %t", g.Config().Mode, hasOld, hasNew)
	}
	face := &countingFace{}
	before := state()
	if err := g.Reload(next, face, log); !errors.Is(err, refused) {
		t.Errorf("the reload: %v", err)
	}
	if len(prepared) < 5 {
		t.Errorf("only %q were asked", prepared)
	}
	if now := state(); now != before || g.Config() != first || face.applied != 0 {
		t.Errorf("%s before, %s after, the face applied %d", before, now, face.applied)
	}
	g.parts = g.parts[:asked]
	if err := g.Reload(next, face, log); err != nil {
		t.Fatal(err)
	}
	if now := state(); now != "mode proxy, old false, new true" || face.applied != 1 {
		t.Errorf("after a good one: %s, the face applied %d", now, face.applied)
	}
}

// TestCloseEndsEveryPart: Close ends each part of a gateway once, in the reverse order of the table.
func TestCloseEndsEveryPart(t *testing.T) {
	c, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(t.Context(), c, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i, p := range g.parts {
		if p.Close != nil {
			want = append(want, p.Name)
			g.parts[i].Close = func(ctx context.Context) {
				p.Close(ctx)
				got = append(got, p.Name)
			}
		}
	}
	slices.Reverse(want)
	if g.Close(t.Context()); !slices.Equal(got, want) || len(got) < 20 {
		t.Errorf("ended: %q, want %q", got, want)
	}
}

// countingFace counts the configurations that it applies.
type countingFace struct{ applied int }

// Apply implements Face.
func (f *countingFace) Apply(_, _ *config.Config) { f.applied++ }
