package sandbox_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/host/sandbox"
)

// TestLearn: what a program touches is proposed, as far as it has it not already, and no secret of the user is; the proposal is
// enough for the same program in each way.
func TestLearn(t *testing.T) {
	dir, err := os.MkdirTemp(os.Getenv("HOME"), "learn-")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	for _, name := range []string{".ssh/id_ed25519", ".toolrc", "data/a", "many/1", "many/2", "many/3", "many/4", "out/had", "log/file"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	host := web.Listener.Addr().String()
	lookup := func(name string) (string, bool) { return home, name == "HOME" }
	script := `cd ` + home + `; cat data/a many/*; cat .ssh/id_ed25519 2>/dev/null; cat "$HOME/.toolrc" 2>/dev/null
		echo new > out/new; echo more >> log/file; cat missing 2>/dev/null; echo kept > "$HOME/kept"; exec `
	for _, c := range []struct {
		name, last string
		net        []string
		direct     []string
	}{
		{"a host by the proxy", self(t) + ` try "fetch ` + web.URL + `"`, []string{host}, nil},
		{"a host past it", self(t) + ` try "reach a host by its address, past the proxy"`, []string{"all"}, []string{host}},
		{"no host", "true", []string{"none"}, nil},
	} {
		p := sandbox.Program{
			Name: "srv", Path: "/bin/sh", Args: []string{"-c", script + c.last},
			Env: []string{"HOME=" + home, "PATH=/usr/bin:/bin:" + filepath.Dir(self(t)), facts{Host: host}.variable()},
		}
		_ = os.Remove(filepath.Join(home, "out", "new"))
		m := sandbox.New(sandbox.Options{Lookup: lookup, State: filepath.Join(dir, "state")})
		var lesson sandbox.Lesson
		confined, err := m.Learn(p, &lesson)
		if err != nil {
			t.Fatal(err)
		}
		printed := ran(t, confined)
		got := lesson.Proposal()
		if got.Blind != nil {
			t.Log(got.Blind)
			t.Skip("this machine watches no system calls")
		}
		want := sandbox.Proposal{
			Read: []string{"~/data/a", "~/many"}, Write: []string{"~/log/file", "~/out"}, Net: c.net, Direct: c.direct,
			Withheld: []string{"~/.ssh/id_ed25519"}, Missed: []string{"~/.toolrc"},
		}
		if c.last != "true" {
			want.Read = append(want.Read, self(t))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: proposed\n%+v, want\n%+v", c.name, got, want)
		}
		if !strings.Contains(printed, ".ssh/id_ed25519\n") {
			t.Errorf("%s: it does not run open: %s", c.name, printed)
		}
		for _, way := range ways(t) {
			m := sandbox.New(sandbox.Options{Lookup: lookup, State: filepath.Join(dir, "state"), Ways: []sandbox.Way{way}})
			printed, _ := start(t, m, p, sandbox.Spec{Read: got.Read, Write: got.Write, Net: got.Net})
			for _, line := range []string{"data/a\n", "many/4\n"} {
				if !strings.Contains(printed, line) {
					t.Errorf("%s, %s: %q is missing in %s", c.name, way, line, printed)
				}
			}
			if strings.Contains(printed, "id_ed25519") || strings.Contains(printed, "refused") || strings.Contains(printed, "held") || strings.Contains(printed, "denied") {
				t.Errorf("%s, %s: %s", c.name, way, printed)
			}
		}
	}
}
