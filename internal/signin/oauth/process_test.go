package oauth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/signin/vault"
)

func threeKeys(bool) (*vault.Keys, error) {
	return vault.NewKeys([]string{"a key of the three of them"})
}

// refreshAll is the body of a child process: it uses a token until it has been refreshed often
// enough.
func refreshAll(dir, server string) {
	c := New(Options{Store: vault.NewFile(dir, threeKeys)})
	s := &Server{Name: "notes", URL: server, Flow: FlowCode}
	end := time.Now().Add(5 * time.Minute)
	for time.Now().Before(end) {
		if _, err := c.Token(context.Background(), s, Shared); err != nil {
			fail(err)
		}
		c.cached.Take(s.id(Shared))
		if _, err := os.Stat(filepath.Join(dir, "enough")); err == nil {
			return
		}
	}
	fail(errors.New("it took too long"))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestThreeProcesses share one store and a token that rotates: none of them ever has to sign in again.
func TestThreeProcesses(t *testing.T) {
	lives := 1000
	if testing.Short() {
		lives = 100
	}
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "creds")
	w.store, w.idp.Life = vault.NewFile(dir, threeKeys), 5*time.Millisecond
	w.client = w.another()
	w.signIn(Shared)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "OAUTH_TEST_REFRESH_IN="+dir, "OAUTH_TEST_SERVER="+w.server.URL)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for w.idp.Count("refreshed") < lives && !t.Failed() {
		<-ticker.C
	}
	if err := os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := w.idp.Count("sign-in"); n != 1 {
		t.Errorf("%d sign-ins", n)
	}
	t.Logf("%d refreshes, 1 sign-in", w.idp.Count("refreshed"))
}
