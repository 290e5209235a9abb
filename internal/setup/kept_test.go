package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// token is a secret that weir finds.
const token = "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"

// adding plans to add a server with a token.
func adding(t *testing.T, m *Machine, name string) *Plan {
	t.Helper()
	p, err := m.Paste(`{"mcpServers":{"`+name+`":{"command":"npx","args":["`+name+`"],"env":{"GITHUB_TOKEN":"`+token+`"}}}}`, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSecretsOfALostChange has a client that writes its file back over and over. The changes of
// weir.yaml and of another client stand, so the secret that they name stays in the store.
func TestSecretsOfALostChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machineWith(t, "mcpServers:\n  a: {command: x}\n")
		p := adding(t, m, "gh")
		dir := filepath.Dir(m.Config)
		lost, other := filepath.Join(dir, "lost.json"), filepath.Join(dir, "other.json")
		const was = `{"mcpServers":{"gh":{"command":"npx"}}}`
		edits := []journal.Edit{{Path: splice.Path{"mcpServers", "gh"}, Remove: true}, {Path: splice.Path{"mcpServers", "weir"}, Value: splice.Object{{Key: "command", Value: "weir"}}}}
		for _, name := range []string{lost, other} {
			if err := os.WriteFile(name, []byte(was), 0o600); err != nil {
				t.Fatal(err)
			}
			p.Files = append(p.Files, File{File: name, format: splice.JSON, edits: edits})
		}
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(200 * time.Millisecond):
					_ = os.WriteFile(lost, []byte(was), 0o600)
				}
			}
		}()
		r, err := p.Apply(t.Context(), Store)
		close(done)
		if !errors.Is(err, journal.ErrLost) || r.Record.N == 0 || !strings.Contains(err.Error(), "weir undo "+strconv.Itoa(r.Record.N)) {
			t.Errorf("operation %d: %v", r.Record.N, err)
		}
		doc, err := os.ReadFile(m.Config)
		if err != nil || !strings.Contains(string(doc), "${secret:GITHUB_TOKEN}") {
			t.Errorf("%v\n%s", err, doc)
		}
		if kept := m.Secrets.(shelf)["GITHUB_TOKEN"]; kept != token {
			t.Errorf("the store has %q", kept)
		}
		if _, err := m.Undo(t.Context(), r.Record.N); err != nil || len(m.Secrets.(shelf)) != 0 {
			t.Errorf("after the undo: %v, %v", err, m.Secrets)
		}
	})
}

// TestSecretsOfNoChange has a file that cannot change: the secrets go again, and there is no operation.
func TestSecretsOfNoChange(t *testing.T) {
	m := machineWith(t, "mcpServers:\n  a: {command: x}\n")
	p := adding(t, m, "gh")
	p.m.Secrets = writingStore{m.Secrets.(shelf), m.Config}
	r, err := p.Apply(t.Context(), Store)
	if !errors.Is(err, journal.ErrChanged) || r.Record.N != 0 || strings.Contains(err.Error(), "weir undo") {
		t.Errorf("operation %d: %v", r.Record.N, err)
	}
	if kept := m.Secrets.(writingStore).shelf; len(kept) != 0 {
		t.Errorf("the store has %v", kept)
	}
	if all, err := m.Journal.List(); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
}

// A writingStore changes a file when it keeps a secret.
type writingStore struct {
	shelf
	file string
}

func (s writingStore) Set(name, value string) (string, error) {
	if err := os.WriteFile(s.file, []byte("mcpServers:\n  b: {command: y}\n"), 0o600); err != nil {
		return "", err
	}
	return s.shelf.Set(name, value)
}

// applied applies a plan and returns its number.
func applied(t *testing.T, p *Plan, err error) int {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Apply(t.Context(), Store)
	if err != nil {
		t.Fatal(err)
	}
	return r.Record.N
}

// TestSecretThatServersShare undoes the addition of two servers with one secret, in either order. The
// secret goes with the last one.
func TestSecretThatServersShare(t *testing.T) {
	for _, first := range []int{0, 1} {
		m := machineWith(t, "mcpServers:\n  a: {command: x}\n")
		m.Journal = m.Journal.AtOnce()
		n := []int{applied(t, adding(t, m, "one"), nil), applied(t, adding(t, m, "two"), nil)}
		for i, want := range []string{token, ""} {
			if _, err := m.Undo(t.Context(), n[(first+i)%2]); err != nil || m.Secrets.(shelf)["GITHUB_TOKEN"] != want {
				t.Errorf("first %d, undo %d: %v, %v", first, i, err, m.Secrets)
			}
		}
	}
}

// TestSecretOfAKeptEntry undoes the addition of a server that was changed since: the entry stays, and
// its secret with it.
func TestSecretOfAKeptEntry(t *testing.T) {
	m := machineWith(t, "mcpServers:\n  a: {command: x}\n")
	m.Journal = m.Journal.AtOnce()
	n := applied(t, adding(t, m, "gh"), nil)
	p, err := m.Amend("gh", splice.Object{{Key: "args", Value: []any{"gh", "--verbose"}}})
	applied(t, p, err)
	u, err := m.Undo(t.Context(), n)
	if err != nil || len(u.Files) != 1 || len(u.Files[0].Kept) == 0 || len(u.Steps) != 0 || m.Secrets.(shelf)["GITHUB_TOKEN"] != token {
		t.Errorf("%v %+v %v", err, u, m.Secrets)
	}
}

// TestUndoOfAnUndoWithoutSecrets refuses to bring back a server whose secret has gone, until the person
// stores it again.
func TestUndoOfAnUndoWithoutSecrets(t *testing.T) {
	m := machineWith(t, "mcpServers:\n  a: {command: x}\n")
	m.Journal = m.Journal.AtOnce()
	n := applied(t, adding(t, m, "gh"), nil)
	u, err := m.Undo(t.Context(), n)
	if err != nil || len(u.Steps) != 1 || len(m.Secrets.(shelf)) != 0 {
		t.Fatalf("%v %+v %v", err, u, m.Secrets)
	}
	if _, err := m.Undo(t.Context(), u.By); !errors.Is(err, errSecretsGone) || !strings.Contains(err.Error(), "weir secret set GITHUB_TOKEN") {
		t.Errorf("%v", err)
	}
	if doc, err := os.ReadFile(m.Config); err != nil || strings.Contains(string(doc), "gh") {
		t.Errorf("%v\n%s", err, doc)
	}
	m.Secrets.(shelf)["GITHUB_TOKEN"] = token
	if _, err := m.Undo(t.Context(), u.By); err != nil {
		t.Errorf("%v", err)
	}
}
