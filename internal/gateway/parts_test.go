package gateway

import (
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

// countingFace counts the configurations that it applies.
type countingFace struct{ applied int }

// Apply implements Face.
func (f *countingFace) Apply(_, _ *config.Config) { f.applied++ }
