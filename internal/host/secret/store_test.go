package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// memoryRing is a keyring in memory.
type memoryRing struct {
	mu     sync.Mutex // guards below
	values map[string]string
	err    error         // of every request; may be nil
	block  chan struct{} // requests wait until it is closed; may be nil
}

var _ ring = (*memoryRing)(nil)

func (m *memoryRing) begin() error {
	m.mu.Lock()
	block, err := m.block, m.err
	m.mu.Unlock()
	if block != nil {
		<-block
	}
	return err
}

func (m *memoryRing) Get(service, name string) (string, error) {
	if err := m.begin(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[service+"/"+name]
	if !ok {
		return "", ErrMissing
	}
	return value, nil
}

func (m *memoryRing) Set(service, name, value string) error {
	if err := m.begin(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]string{}
	}
	m.values[service+"/"+name] = value
	return nil
}

func (m *memoryRing) Delete(service, name string) error {
	if err := m.begin(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[service+"/"+name]; !ok {
		return ErrMissing
	}
	delete(m.values, service+"/"+name)
	return nil
}

func (m *memoryRing) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values)
}

func (m *memoryRing) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// TestStore sets, lists, finds and removes in each place, and checks where the value is.
func TestStore(t *testing.T) {
	const value = "ghp_0123456789abcdef"
	for _, tc := range []struct {
		name     string
		ring     *memoryRing
		platform string
		where    Place
		value    string
		want     Place
	}{
		{"keyring", &memoryRing{}, "linux", Auto, value, Keyring},
		{"no keyring", nil, "linux", Auto, value, File},
		{"file asked for", &memoryRing{}, "linux", File, value, File},
		{"keyring that fails", &memoryRing{err: errors.New("locked")}, "linux", Auto, value, File},
		{"too large for Windows", &memoryRing{}, "windows", Auto, strings.Repeat("x", 2561), File},
		{"just small enough for Windows", &memoryRing{}, "windows", Auto, strings.Repeat("x", 2560), Keyring},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "weir")
			o := options{dir: dir, platform: tc.platform}
			if tc.ring != nil {
				o.ring = tc.ring
			}
			s := open(o)
			where, err := s.Set("TOKEN", tc.value, tc.where)
			if err != nil || where != tc.want {
				t.Fatalf("set: %q, %v, want %q", where, err, tc.want)
			}
			if got, ok, err := s.Lookup("TOKEN"); err != nil || !ok || got != tc.value {
				t.Errorf("lookup: %q, %v", got, err)
			}
			data, err := os.ReadFile(s.Path())
			if err != nil || strings.Contains(string(data), tc.value) == (tc.want == Keyring) {
				t.Errorf("the file has\n%s%v", data, err)
			}
			entries, err := s.List()
			if err != nil || len(entries) != 1 || entries[0].Name != "TOKEN" || entries[0].Place != tc.want || entries[0].Changed.IsZero() {
				t.Errorf("list: %+v, %v", entries, err)
			}
			if shown := fmt.Sprintf("%+v", entries); strings.Contains(shown, tc.value) {
				t.Errorf("the list shows the value: %s", shown)
			}
			if err := s.Remove("TOKEN"); err != nil {
				t.Error(err)
			}
			if got, ok, err := s.Lookup("TOKEN"); ok || err != nil {
				t.Errorf("after its removal: %q, %v", got, err)
			}
			if tc.ring != nil && tc.ring.len() != 0 {
				t.Error("the keyring still has a value")
			}
			if err := s.Remove("TOKEN"); !errors.Is(err, ErrMissing) {
				t.Errorf("removed twice: %v", err)
			}
		})
	}
}

// TestPlaces: a value that moves leaves nothing behind, and the file changes with every Set.
func TestPlaces(t *testing.T) {
	ring := &memoryRing{}
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	s := open(options{dir: t.TempDir(), platform: "linux", ring: ring, now: func() time.Time { return now }})
	last := ""
	for i, where := range []Place{Keyring, Keyring, File, Auto} {
		value := fmt.Sprintf("value-%d", i)
		if _, err := s.Set("A", value, where); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(s.Path())
		if err != nil || string(data) == last {
			t.Errorf("%d: the file is as before, %v", i, err)
		}
		last = string(data)
		if got, ok, err := s.Lookup("A"); err != nil || !ok || got != value {
			t.Errorf("%d: %q, %v", i, got, err)
		}
		if inRing := ring.len() == 1; inRing != (where != File) {
			t.Errorf("%d: the keyring has %d values", i, ring.len())
		}
		if strings.Contains(last, "value-") != (where == File) {
			t.Errorf("%d: the file has\n%s", i, last)
		}
	}
}

// TestLost: a value that another program has removed from the keyring is missing.
func TestLost(t *testing.T) {
	ring := &memoryRing{}
	s := open(options{dir: t.TempDir(), platform: "linux", ring: ring})
	if _, err := s.Set("A", "value-of-a", Keyring); err != nil {
		t.Fatal(err)
	}
	if err := ring.Delete(s.service, "A"); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.Lookup("A"); ok || err != nil {
		t.Errorf("%q, %v, %v", got, ok, err)
	}
	if err := s.Remove("A"); err != nil {
		t.Error(err)
	}
}

// TestNoKeyring: what needs a keyring says what to do where there is none.
func TestNoKeyring(t *testing.T) {
	dir := t.TempDir()
	with := open(options{dir: dir, platform: "linux", ring: &memoryRing{}})
	if _, err := with.Set("A", "value-of-a", Auto); err != nil {
		t.Fatal(err)
	}
	without := open(options{dir: dir, platform: "linux"})
	if _, _, err := without.Lookup("A"); err == nil || !strings.Contains(err.Error(), "weir secret set A --store file") {
		t.Errorf("lookup: %v", err)
	}
	if _, err := without.Set("B", "value-of-b", Keyring); err == nil || !strings.Contains(err.Error(), "no keyring here") {
		t.Errorf("set: %v", err)
	}
	if err := without.Remove("A"); err == nil || !strings.Contains(err.Error(), "the keyring still has it") {
		t.Errorf("remove: %v", err)
	}
	if entries, err := with.List(); err != nil || len(entries) != 0 {
		t.Errorf("list: %v, %v", entries, err)
	}
}

// TestSilentKeyring: a keyring that does not answer costs one wait, not one for each secret.
func TestSilentKeyring(t *testing.T) {
	ring := &memoryRing{}
	s := open(options{dir: t.TempDir(), platform: "linux", ring: ring, wait: 20 * time.Millisecond})
	for _, name := range []string{"A", "B"} {
		if _, err := s.Set(name, "value-of-"+name, Keyring); err != nil {
			t.Fatal(err)
		}
	}
	block := make(chan struct{})
	ring.mu.Lock()
	ring.block = block
	ring.mu.Unlock()
	if _, _, err := s.Lookup("A"); err == nil || !strings.Contains(err.Error(), "did not answer within 20ms; unlock the keyring") {
		t.Errorf("the first: %v", err)
	}
	if _, _, err := s.Lookup("B"); !errors.Is(err, errBusy) {
		t.Errorf("the second: %v", err)
	}
	if where, err := s.Set("C", "value-of-C", Auto); err != nil || where != File {
		t.Errorf("set while the keyring is silent: %q, %v", where, err)
	}
	close(block)
	for s.ring.late.Load() {
		time.Sleep(time.Millisecond)
	}
	if got, ok, err := s.Lookup("A"); err != nil || !ok || got != "value-of-A" {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

// TestKeyringThatRepeats: no error has the value.
func TestKeyringThatRepeats(t *testing.T) {
	const value = "sk-0123456789abcdef"
	ring := &memoryRing{}
	s := open(options{dir: t.TempDir(), platform: "linux", ring: ring})
	ring.fail(errors.New("cannot store " + value))
	if _, err := s.Set("A", value, Keyring); err == nil || strings.Contains(err.Error(), value) {
		t.Errorf("%v", err)
	}
}

// TestWriters: stores of their own, as processes have them, write at the same time and lose nothing.
func TestWriters(t *testing.T) {
	dir := t.TempDir()
	ring := &memoryRing{}
	want := map[string]string{}
	var writers sync.WaitGroup
	for w := range 6 {
		for i := range 10 {
			want[fmt.Sprintf("W%d_%d", w, i)] = fmt.Sprintf("value %d of %d", i, w)
		}
		writers.Go(func() {
			s := open(options{dir: dir, platform: "linux", ring: ring})
			for i := range 10 {
				where := File
				if i%2 == 0 {
					where = Keyring
				}
				if _, err := s.Set(fmt.Sprintf("W%d_%d", w, i), fmt.Sprintf("value %d of %d", i, w), where); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	s := open(options{dir: dir, platform: "linux", ring: ring})
	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range entries {
		if got[e.Name], _, err = s.Lookup(e.Name); err != nil {
			t.Error(err)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d secrets are there, want %d", len(got), len(want))
	}
	left, err := filepath.Glob(filepath.Join(dir, ".secrets-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestRights: the file and its folder are for this user alone, and a file that others can read is
// not used.
func TestRights(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config", "weir")
	s := open(options{dir: dir, platform: "linux"})
	if _, err := s.Set("A", "value-of-a", Auto); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{s.Path(): 0o600, dir: 0o700, filepath.Join(dir, "secrets.lock"): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	if err := os.Chmod(s.Path(), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Lookup("A"); err == nil || !strings.Contains(err.Error(), "chmod 600 "+s.Path()) {
		t.Errorf("a file for the group: %v", err)
	}
	if _, err := s.Set("B", "value-of-b", Auto); err == nil {
		t.Error("a file for the group is written without a word")
	}
}

// TestLink: a link to the file stays a link.
func TestLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "kept.yaml")
	if err := os.WriteFile(elsewhere, []byte("A: by hand\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(options{dir: dir, platform: "linux"})
	if err := os.Symlink(elsewhere, s.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set("B", "value-of-b", Auto); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(s.Path())
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if got, ok, err := s.Lookup("A"); err != nil || !ok || got != "by hand" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFile reads files as people write them. No message repeats a value.
func TestFile(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"# nothing\n":                "",
		"A: by hand":                 "by hand",
		"A: 007":                     "007",
		"A: {value: true}":           "true",
		"A: |\n  two\n  lines\n":     "two\nlines\n",
		"A: {keyring: true}":         "",
		"- hidden-value":             "line 1: a mapping",
		"A: hidden-value\nA: b":      "line 2: A stands twice",
		"A: b\n\thidden-value":       "is not YAML",
		"A: [hidden-value]":          "line 1: A: a text is wanted",
		"A: {walue: hidden-value}":   "the keys are value, keyring and changed",
		"A: {changed: hidden-value}": "changed is no time",
		"A: {value: hidden-value, keyring: true}": "keep one of them",
		"hidden-value: b":                         "line 1: this is no name",
		"A: &x hidden-value\nB: *x":               "line 2: B: a text is wanted",
		"A: ''":                                   "is empty",
		"A: *hidden":                              "is not YAML",
	} {
		all, err := parse([]byte(text))
		switch {
		case err != nil && strings.Contains(err.Error(), "hidden"):
			t.Errorf("%q: the message has the value: %v", text, err)
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case err == nil && all["A"].value != want:
			t.Errorf("%q: %q, want %q", text, all["A"].value, want)
		}
	}
}

// TestRoundTrip: every value comes back as it was.
func TestRoundTrip(t *testing.T) {
	s := open(options{dir: t.TempDir(), platform: "linux"})
	for i, value := range []string{
		"x", "true", "null", "~", "0123", "1e3", " spaces ", "\ttab", "# no comment", "a: b", "'\"`", "\\n", "line\nline", "line\n\n", "\n", "crlf\r\nend\r\n",
		"\ufeffmark", "\u0085\u2028", "\a\b\x1b", "é漢😀", "2026-01-31", "<<", "=", "!tag", "&a", "*a", "%", "@", strings.Repeat("long ", 5000),
		"-----BEGIN KEY-----\nMIIB\n\n  indented\n-----END KEY-----\n",
	} {
		name := fmt.Sprintf("V%d", i)
		if _, err := s.Set(name, value, File); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		if got, ok, err := s.Lookup(name); err != nil || !ok || got != value {
			t.Errorf("%q came back as %q, %v", value, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	s := open(options{dir: t.TempDir(), platform: "linux"})
	for _, tc := range []struct{ name, value, want string }{
		{"", "v", "1 to 128"}, {"1A", "v", "no digit first"}, {"A-B", "v", "letters"}, {strings.Repeat("A", 129), "v", "1 to 128"}, {"Ä", "v", "letters"},
		{"A", "", "is empty"}, {"A", strings.Repeat("v", MaxValue+1), "at most 65536"}, {"A", "a\x00b", "no text"}, {"A", "\xff", "no text"},
	} {
		if _, err := s.Set(tc.name, tc.value, Auto); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.20q = %.20q: %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
	if _, _, err := s.Lookup("no name"); err == nil {
		t.Error("a name with a space is looked up")
	}
}

// TestFull: the number of secrets is bounded, and one that is there can still be changed.
func TestFull(t *testing.T) {
	s := open(options{dir: t.TempDir(), platform: "linux"})
	var b strings.Builder
	for i := range maxSecrets {
		fmt.Fprintf(&b, "S%d: v\n", i)
	}
	if err := os.WriteFile(s.Path(), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set("ONE_MORE", "v", Auto); err == nil || !strings.Contains(err.Error(), "1000 secrets already") {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.Set("S1", "w", Auto); err != nil {
		t.Error(err)
	}
}

// TestBus: no request goes to a bus that would have to be started.
func TestBus(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"XDG_RUNTIME_DIR": dir}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if hasBus(lookup) {
		t.Error("an empty folder is a bus")
	}
	if err := os.WriteFile(filepath.Join(dir, "bus"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !hasBus(lookup) {
		t.Error("the bus in the folder is not found")
	}
	for address, want := range map[string]bool{"autolaunch:": false, "disabled:": false, "unix:path=/x": true} {
		env["DBUS_SESSION_BUS_ADDRESS"] = address
		if hasBus(lookup) != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
}

func ExampleStore() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	s := System(dir, os.LookupEnv)
	if _, err := s.Set("GITHUB_TOKEN", "ghp_0123456789", File); err != nil {
		panic(err)
	}
	entries, err := s.List()
	if err != nil {
		panic(err)
	}
	fmt.Println(entries[0].Name, entries[0].Place)
	_, ok, err := s.Lookup("SLACK_TOKEN")
	fmt.Println(ok, err)
	// Output:
	// GITHUB_TOKEN file
	// false <nil>
}
