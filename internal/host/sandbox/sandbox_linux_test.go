package sandbox_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/sandbox"
)

// ways are the ways that this machine has without a container engine.
func ways(t testing.TB) (all []sandbox.Way) {
	for _, one := range sandbox.New(sandbox.Options{Lookup: os.LookupEnv}).Abilities() {
		switch {
		case one.Way == sandbox.Container:
		case one.Have:
			all = append(all, one.Way)
		default:
			t.Logf("this machine has no %s: %s", one.Way, one.Note)
		}
	}
	return all
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNetByHost: a program reaches the named hosts and no others, over plain HTTP and in tunnels, and each host is told.
func TestNetByHost(t *testing.T) {
	plain, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	defer secure.Close()
	ok := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ok.Close()
	_, port, _ := net.SplitHostPort(ok.Listener.Addr().String())
	for _, way := range ways(t) {
		var told []string
		m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: t.TempDir(), Ways: []sandbox.Way{way}, Reached: func(server, host, port string, refused error) {
			word := " reached "
			if refused != nil {
				word = " refused "
			}
			told = append(told, server+word+host+":"+port)
		}})
		for _, c := range []struct {
			name, url string
			net       []string
			want      string
		}{
			{"named, plain", ok.URL, []string{ok.Listener.Addr().String()}, "reached"},
			{"named, tunnel", secure.URL, []string{secure.Listener.Addr().String()}, "reached"},
			{"every port of a host", secure.URL, []string{"127.0.0.1"}, "reached"},
			{"another host", ok.URL, []string{"example.com"}, "refused: "},
			{"another port", ok.URL, []string{secure.Listener.Addr().String()}, "refused: "},
			{"another host, tunnel", secure.URL, []string{"example.com"}, "refused: "},
			{"a name of this machine, by a pattern", "http://x.localhost:" + port, []string{"*.example.com"}, "refused: "},
			{"metadata of a cloud, although named", "http://169.254.169.254/", []string{"169.254.169.254"}, "refused: "},
			{"none", ok.URL, []string{"none"}, "refused: "},
			{"all", ok.URL, nil, "reached"},
			{"all, said so", ok.URL, []string{"all"}, "reached"},
		} {
			told = nil
			printed, _ := start(t, m, sandbox.Program{Name: "srv", Path: self(t), Args: []string{"try", "fetch " + c.url}, Env: []string{"PATH=/usr/bin:/bin"}}, sandbox.Spec{Net: c.net})
			if !strings.HasPrefix(printed, c.want) {
				t.Errorf("%s, %s: %s, want %s", way, c.name, strings.TrimSpace(printed), c.want)
			}
			if proxied := len(c.net) > 0 && c.net[0] != "all" && c.net[0] != "none"; proxied != (len(told) == 1) || proxied && !strings.HasPrefix(told[0], "srv "+strings.TrimSuffix(c.want, ": ")) {
				t.Errorf("%s, %s: told %q", way, c.name, told)
			}
		}
	}
}

// TestFolders: a program reads and changes what its arguments and its own variables name, not what variables of weir do, and
// keeps its state.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"given", "read", "secret", "new", "work", "own"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := `for f in given read secret new work own; do printf "$f "; cat ` + dir + `/$f/file 2>/dev/null || printf -- -; (echo x > ` + dir + `/$f/written) 2>/dev/null && printf " w"; echo; done
		echo kept > "$HOME/kept" && ls "$HOME/kept" > /dev/null && echo home; echo tmp > "$TMPDIR/t" && echo tmp; pwd; echo "$SECRET"; echo "$XDG_CONFIG_HOME$XDG_STATE_HOME"`
	for _, way := range ways(t) {
		state := t.TempDir()
		m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: state, Ways: []sandbox.Way{way}})
		p := sandbox.Program{
			Name: "srv", Path: "/bin/sh", Args: []string{"-c", script, "sh", dir + "/given", "--out=" + dir + "/new/file"}, Dir: dir + "/work",
			Env: []string{"PATH=/usr/bin:/bin", "HOME=" + os.Getenv("HOME"), "SECRET=of its entry", "XDG_CONFIG_HOME=" + dir + "/own", "XDG_STATE_HOME=" + dir + "/secret"}, Own: []string{"SECRET", "XDG_CONFIG_HOME"},
		}
		printed, _ := start(t, m, p, sandbox.Spec{Read: []string{dir + "/read"}})
		want := "given given w\nread read\nsecret -\nnew new\nwork work w\nown own w\nhome\ntmp\n" + dir + "/work\nof its entry\n" + dir + "/own\n"
		if printed != want {
			t.Errorf("%s:\n%swant\n%s", way, printed, want)
		}
		if _, err := os.Stat(filepath.Join(state, "srv", "kept")); err != nil {
			t.Errorf("%s: the state is not kept: %v", way, err)
		}
	}
}

// TestInterpreter: a script whose first line names a link to an interpreter somewhere else starts, as do programs of a PATH of which
// this user may not see a part.
func TestInterpreter(t *testing.T) {
	dir := t.TempDir()
	base, own, closed := filepath.Join(dir, "base", "bin"), filepath.Join(dir, "own", "bin"), filepath.Join(dir, "closed")
	for _, folder := range []string{base, own, filepath.Join(closed, "bin")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(base, "sh"), shell, 0o755), os.Symlink(filepath.Join(base, "sh"), filepath.Join(own, "sh")),
		os.WriteFile(filepath.Join(own, "server"), []byte("#!"+filepath.Join(own, "sh")+"\necho started\n"), 0o755), os.Chmod(closed, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	for _, way := range ways(t) {
		m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: t.TempDir(), Ways: []sandbox.Way{way}})
		p := sandbox.Program{Name: "srv", Path: filepath.Join(own, "server"), Env: []string{"PATH=/usr/bin:/bin:" + filepath.Join(closed, "bin")}}
		if printed, _ := start(t, m, p, sandbox.Spec{}); printed != "started\n" {
			t.Errorf("%s: %q", way, printed)
		}
	}
}

// TestRequire: what cannot be confined is not started where the configuration says so, and said otherwise.
func TestRequire(t *testing.T) {
	m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: t.TempDir(), Ways: []sandbox.Way{sandbox.None}})
	p := sandbox.Program{Name: "srv", Path: "/bin/true"}
	if _, err := m.Confine(p, sandbox.Spec{Require: true}); err == nil || !strings.Contains(err.Error(), "nothing is closed") || !strings.Contains(err.Error(), "install bubblewrap") {
		t.Errorf("it would start, or the next step is missing: %v", err)
	}
	c, err := m.Confine(p, sandbox.Spec{})
	if err != nil || c.Way != sandbox.None || len(c.Gaps) == 0 || c.Path != "/bin/true" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := m.Confine(p, sandbox.Spec{Image: "node:22"}); err == nil {
		t.Error("a container without an engine")
	}
	if _, err := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: t.TempDir()}).Confine(p, sandbox.Spec{Net: []string{"https://x"}}); err == nil {
		t.Error("a URL is no host")
	}
}

// TestContainerOfItsOwn: a program that is an engine which runs a container is left as it is, and what the entry asks in
// addition stays open.
func TestContainerOfItsOwn(t *testing.T) {
	m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: t.TempDir()})
	for _, args := range [][]string{{"run", "-i", "--rm", "img"}, {"container", "run", "img"}} {
		p := sandbox.Program{Name: "srv", Path: "/usr/bin/docker", Args: args, Env: []string{"HOME=/home/me", "XDG_RUNTIME_DIR=/run/user/1"}}
		c, err := m.Confine(p, sandbox.Spec{})
		if err != nil || c.Way != sandbox.Container || len(c.Gaps) > 0 || !reflect.DeepEqual(c.Program, p) {
			t.Errorf("%q: %+v, %v", args, c, err)
		}
		closed := sandbox.Spec{Net: []string{"none"}}
		if d, err := m.Describe(p, closed); err != nil || len(d.Gaps) != 1 || !strings.Contains(d.Gaps[0], "docker run") {
			t.Errorf("%q without network: %+v, %v", args, d, err)
		}
		closed.Require = true
		if _, err := m.Confine(p, closed); err == nil {
			t.Errorf("%q would start with another network than required", args)
		}
	}
	if d, err := m.Describe(sandbox.Program{Name: "srv", Path: "/usr/bin/docker", Args: []string{"ps"}}, sandbox.Spec{}); err != nil || d.Way == sandbox.Container {
		t.Errorf("another command of an engine: %+v, %v", d, err)
	}
}

// TestContainer gives an engine that prints how it is called: what reaches it is what podman and docker take.
func TestContainer(t *testing.T) {
	bin, state := t.TempDir(), t.TempDir()
	engine := filepath.Join(bin, "podman")
	if err := os.WriteFile(engine, []byte("#!/bin/sh\necho \"$@\"; echo token=$TOKEN\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: state})
	p := sandbox.Program{Name: "srv", Path: "server", Args: []string{"--x"}, Dir: "/work", Env: []string{"TOKEN=hunter2", "PATH=" + bin + ":/usr/bin:/bin"}}
	printed, _ := start(t, m, p, sandbox.Spec{Image: "img:1", Read: []string{"/data"}, Write: []string{"/out"}, Net: []string{"none"}, Memory: 1 << 30, CPUs: 2})
	for _, want := range []string{"run --rm -i", "--read-only --cap-drop ALL --security-opt no-new-privileges", "--network none", "--memory 1073741824", "--cpus 2", "-v /data:/data:ro", "-v /out:/out:rw", "-e TOKEN", "-w /work", " img:1 server --x", "token=hunter2"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is missing in %s", want, printed)
		}
	}
	if strings.Contains(strings.Split(printed, "\n")[0], "hunter2") {
		t.Error("a secret is on the command line")
	}
	printed, _ = start(t, m, p, sandbox.Spec{Image: "img:1", Net: []string{"example.com"}})
	if !strings.Contains(printed, "--network none") || !strings.Contains(printed, "--entrypoint /run/weir-confine img:1 confine {") || !strings.Contains(printed, "} -- server --x") {
		t.Errorf("hosts in a container: %s", printed)
	}
}

// TestStartCost: a start in a sandbox takes at most 30 ms longer, in the middle of many; the machine may be busy, so the
// bound here is ten times that. BenchmarkStart has the figures.
func TestStartCost(t *testing.T) {
	middle := func(way sandbox.Way) time.Duration {
		m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: t.TempDir(), Ways: []sandbox.Way{way}})
		var all []time.Duration
		for range 9 {
			_, took := start(t, m, sandbox.Program{Name: "srv", Path: "/bin/true", Env: []string{"PATH=/usr/bin:/bin"}}, sandbox.Spec{})
			all = append(all, took)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	without := middle(sandbox.None)
	for _, way := range ways(t) {
		more := middle(way) - without
		t.Logf("%s: %v more than %v", way, more, without)
		if more > 300*time.Millisecond {
			t.Errorf("%s: %v more", way, more)
		}
	}
}

// BenchmarkStart starts a program and waits for its end. cpu-ms is the time of processors that a start takes, which other
// programs of the machine change less.
func BenchmarkStart(b *testing.B) {
	for _, way := range append(ways(b), sandbox.None) {
		b.Run(string(way), func(b *testing.B) {
			m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: b.TempDir(), Ways: []sandbox.Way{way}})
			var cpu time.Duration
			for b.Loop() {
				c, err := m.Confine(sandbox.Program{Name: "srv", Path: "/bin/true", Env: []string{"PATH=/usr/bin:/bin"}}, sandbox.Spec{})
				if err != nil {
					b.Fatal(err)
				}
				cmd := &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				c.End()
			}
			b.ReportMetric(cpu.Seconds()*1e3/float64(b.N), "cpu-ms")
		})
	}
}

// BenchmarkCall sends a line to a program and reads it back, in turns without and with a sandbox. x-none is the time in a
// sandbox by the time without one, each the middle of all.
func BenchmarkCall(b *testing.B) {
	for _, way := range ways(b) {
		for name, net := range map[string][]string{"all": nil, "hosts": {"named.example"}} {
			b.Run(string(way)+"/"+name, func(b *testing.B) {
				none, confined := lineServer(b, sandbox.None, nil), lineServer(b, way, net)
				var without, with []time.Duration
				for b.Loop() {
					start := time.Now()
					none()
					between := time.Now()
					confined()
					without, with = append(without, between.Sub(start)), append(with, time.Since(between))
				}
				slices.Sort(without)
				slices.Sort(with)
				b.ReportMetric(float64(with[len(with)/2])/float64(without[len(without)/2]), "x-none")
			})
		}
	}
}

// lineServer starts a program that answers each line with itself, and returns a call of it.
func lineServer(b *testing.B, way sandbox.Way, net []string) (call func()) {
	b.Helper()
	m := sandbox.New(sandbox.Options{Lookup: os.LookupEnv, State: b.TempDir(), Ways: []sandbox.Way{way}})
	c, err := m.Confine(sandbox.Program{Name: "srv", Path: "/bin/cat", Env: []string{"PATH=/usr/bin:/bin"}}, sandbox.Spec{Net: net})
	if err != nil {
		b.Fatal(err)
	}
	cmd := &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir, Stderr: os.Stderr}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait(); c.End() })
	line, lines := []byte(strings.Repeat("x", 999)+"\n"), bufio.NewReader(out)
	call = func() {
		if _, err := in.Write(line); err != nil {
			b.Fatal(err)
		}
		if got, err := lines.ReadSlice('\n'); err != nil || len(got) != len(line) {
			b.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	call() // it has started
	return call
}
