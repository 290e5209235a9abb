package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/secret"
)

// TestSecretIsAsked: at a terminal the value is typed without being shown.
func TestSecretIsAsked(t *testing.T) {
	tty, person := pty(t)
	screen := &seen{}
	copied := watch(person, screen)
	var stdout bytes.Buffer
	home := t.TempDir()
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"XDG_CONFIG_HOME": home, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}[name]
		return value, ok
	}
	a := &process{stdin: tty, stdout: terminal{Writer: &stdout}, stderr: newTerminal(tty, lookup), lookupEnv: lookup}
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		for deadline := time.Now().Add(30 * time.Second); !strings.Contains(screen.String(), "Value of KEY:") && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		_, _ = person.WriteString("s3cret-typed\n")
	}()
	err := setSecret(a, t.Context(), "KEY", secret.Auto, false, false)
	<-typed
	tty.Close()
	person.Close()
	<-copied
	if err != nil || strings.Contains(screen.String()+stdout.String(), "s3cret") || !strings.Contains(stdout.String(), "KEY is stored in "+home) {
		t.Errorf("%v\nstdout: %s\nscreen: %s", err, &stdout, screen)
	}
	store, err := openSecrets(a.lookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if value, ok, err := store.Lookup("KEY"); value != "s3cret-typed" || !ok || err != nil {
		t.Errorf("%q, %v, %v", value, ok, err)
	}
}
