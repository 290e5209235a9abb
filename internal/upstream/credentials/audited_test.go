package credentials

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// TestAuditedSignIns names who signs in, at which server, and whether a sign-in replaces another. The
// URL of the server is not told.
func TestAuditedSignIns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	secret := base64.StdEncoding.EncodeToString(make([]byte, 32))
	keys, err := audit.KeysFrom(secret)
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(audit.Options{Dir: dir, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	store := Audited(nil, log)
	id := vault.ID{Kind: vault.Token, Server: "notes https://notes.example.com/mcp?key=hunter22"}
	first, second, third := vault.Record{Issuer: "i", Data: []byte("1")}, vault.Record{Issuer: "i", Data: []byte("2")}, vault.Record{Issuer: "i", Data: []byte("3")}
	renews := identity.With(t.Context(), &identity.Identity{Principal: "ann"})
	signs := withSignIn(renews)
	for _, step := range []struct {
		ctx       context.Context
		old, next vault.Record
	}{{signs, vault.Record{}, first}, {renews, first, second}, {signs, second, third}} {
		if err := store.Swap(step.ctx, id, step.old, step.next); err != nil {
			t.Fatal(err)
		}
	}
	log.Close()
	var all []byte
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range files {
		data, _ := os.ReadFile(name)
		all = append(all, data...)
	}
	var got []string
	for line := range strings.Lines(string(all)) {
		for _, want := range []string{`"kind":"sign-in","principal":"ann","server":"notes","decision":"stored"`, `"kind":"credential","principal":"ann","server":"notes","decision":"renewed"`, `"kind":"sign-in","principal":"ann","server":"notes","decision":"replaced"`} {
			if strings.Contains(line, want) {
				got = append(got, want)
			}
		}
	}
	if len(got) != 3 || strings.Contains(string(all), "hunter22") {
		t.Errorf("records %q in\n%s", got, all)
	}
}
