package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/host/confine"
	"github.com/weir-mcp/weir/internal/host/place"
)

// Options configure a Machine.
type Options struct {
	// Lookup reads weir's environment.
	Lookup func(name string) (value string, ok bool)
	// State is the folder with the state folders of servers; weir's state folder where empty.
	State string
	// Ways are those that may be used; all where empty.
	Ways []Way
	// Reached is told the hosts that the programs of a server with named hosts ask for.
	Reached func(server, host, port string, refused error)
	Logger  *slog.Logger // nil discards
}

// Machine confines programs on this machine. It is safe for concurrent use.
type Machine struct {
	o        Options
	landlock int
	bwrap    func() (path string, err error)
	engine   func() (path string, err error)
}

// New returns a Machine.
func New(o Options) *Machine {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Machine{o: o, landlock: confine.Landlock()}
	m.bwrap = sync.OnceValues(m.findBubblewrap)
	m.engine = sync.OnceValues(m.findEngine)
	return m
}

// probeTime bounds a trial of bubblewrap.
const probeTime = 5 * time.Second

func (m *Machine) findBubblewrap() (string, error) {
	if runtime.GOOS != "linux" {
		return "", errors.New("it is for Linux")
	}
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "", errors.New("bwrap is not installed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	c := exec.CommandContext(ctx, path, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", path, "--version")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("bwrap does not work for this user (%v: %.200s); user namespaces may be forbidden", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

func (m *Machine) findEngine() (string, error) {
	for _, name := range []string{"podman", "docker"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither podman nor docker is installed")
}

// Ability is a way of this machine.
type Ability struct {
	Way  Way
	Have bool
	Note string // the version, or what is missing
}

// Abilities returns the ways, the strongest first.
func (m *Machine) Abilities() []Ability {
	var all []Ability
	add := func(way Way, note string, err error) {
		if err == nil && !m.may(way) {
			err = errors.New("it is not used")
		}
		if err != nil {
			note = err.Error()
		}
		all = append(all, Ability{Way: way, Have: err == nil, Note: note})
	}
	path, err := m.engine()
	add(Container, path, err)
	path, err = m.bwrap()
	add(Bubblewrap, path, err)
	err = nil
	if m.landlock == 0 {
		err = errors.New("the kernel has no Landlock")
		if runtime.GOOS != "linux" {
			err = errors.New("it is for Linux")
		}
	}
	add(Landlock, "version "+strconv.Itoa(m.landlock), err)
	return all
}

func (m *Machine) may(way Way) bool { return len(m.o.Ways) == 0 || slices.Contains(m.o.Ways, way) }

// way returns the strongest way for a program and its Spec.
func (m *Machine) way(p Program, s Spec) (Way, error) {
	if p.ownContainer() {
		return Container, nil
	}
	if s.Image != "" {
		if _, err := m.engine(); err != nil || !m.may(Container) {
			return None, fmt.Errorf("sandbox.image needs a container engine: %w", cmp.Or(err, errors.New("containers are not used")))
		}
		return Container, nil
	}
	if _, err := m.bwrap(); err == nil && m.may(Bubblewrap) {
		return Bubblewrap, nil
	}
	if m.landlock > 0 && m.may(Landlock) {
		return Landlock, nil
	}
	return None, nil
}

// Confined is a program in its sandbox, ready to start. The caller calls End when it has ended, or was not started.
type Confined struct {
	Program
	Way Way
	// Gaps are what the sandbox does not close here, for a person.
	Gaps []string
	end  []func()
}

// End frees what the sandbox holds for the program.
func (c *Confined) End() {
	for _, end := range slices.Backward(c.end) {
		end()
	}
	c.end = nil
}

// A Description says how a program would be confined.
type Description struct {
	Way Way
	// Read and Write are the files and folders that are left to it, in addition to the files of the system.
	Read, Write []string
	// Processes bounds its processes and threads; 0: nothing does.
	Processes int
	// Gaps are what stays open on this machine, for a person.
	Gaps []string
}

// Describe returns how a program would be confined. The error says why it would not be started. Describe holds nothing.
func (m *Machine) Describe(p Program, s Spec) (Description, error) {
	way, gaps, err := m.choose(p, s)
	d := Description{Way: way, Gaps: gaps}
	if err != nil || way == None || p.ownContainer() {
		return d, err
	}
	f, err := m.folders(p.Name)
	if err != nil {
		return d, err
	}
	w := f.walls(p, s)
	if way == Container {
		w.Read, w.Write = f.volumes(s)
	}
	common := func(path string) bool { return slices.Contains(system, path) || slices.Contains(devices, path) }
	d.Read, d.Write = slices.DeleteFunc(w.Read, common), slices.DeleteFunc(w.Write, common)
	if way == Container || os.Getuid() != 0 {
		d.Processes = maxProcesses
	}
	return d, nil
}

// choose returns the way for a program and what it leaves open here. The error says that the program must not be started so.
func (m *Machine) choose(p Program, s Spec) (Way, []string, error) {
	way, err := m.way(p, s)
	if err != nil {
		return None, nil, err
	}
	gaps := m.gaps(way, p, s)
	if s.Require && len(gaps) > 0 {
		return way, gaps, fmt.Errorf("sandbox.require is set, and on this machine %s; %s, or take sandbox.require out", strings.Join(gaps, ", "), remedy())
	}
	return way, gaps, nil
}

// remedy is the next step of a person whose machine leaves something open.
func remedy() string {
	if runtime.GOOS == "linux" {
		return "install bubblewrap, or set sandbox.image"
	}
	return "set sandbox.image"
}

// gaps returns what a way leaves open.
func (m *Machine) gaps(way Way, p Program, s Spec) (all []string) {
	switch way {
	case None:
		return []string{"nothing is closed: " + m.without()}
	case Container:
		if p.ownContainer() && (s.Offline() || s.Memory > 0 || s.CPUs > 0) {
			all = append(all, fmt.Sprintf("the network and the limits are as its arguments of %s run say, and not as sandbox says", filepath.Base(p.Path)))
		}
	case Landlock:
		if m.landlock < 6 {
			all = append(all, fmt.Sprintf("signals and abstract sockets reach other processes of this user (Landlock %d)", m.landlock))
		}
		if s.Offline() && m.landlock < 4 {
			all = append(all, fmt.Sprintf("TCP is not closed (Landlock %d)", m.landlock))
		}
	}
	return all
}

func (m *Machine) without() string {
	if runtime.GOOS != "linux" {
		return fmt.Sprintf("without a container, weir confines no programs on %s", runtime.GOOS)
	}
	_, err := m.bwrap()
	return fmt.Sprintf("the kernel has no Landlock, and %v", cmp.Or(err, errors.New("bubblewrap is not used")))
}

// folders returns the folders for a server.
func (m *Machine) folders(server string) (folders, error) {
	home, _ := m.o.Lookup("HOME")
	root := m.o.State
	if root == "" {
		state, err := place.Env{OS: runtime.GOOS, Lookup: m.o.Lookup}.State()
		if err != nil {
			return folders{}, err
		}
		root = filepath.Join(state, "sandbox")
	}
	return folders{home: filepath.Clean(home), state: filepath.Join(root, fileName(server))}, nil
}

// fileName returns the name of a server's folder.
func fileName(server string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, strings.TrimLeft(server, "."))
}

// walls returns what is left to a program.
func (f folders) walls(p Program, s Spec) confine.Walls {
	read, write := f.needs(p)
	more, changed := f.volumes(s)
	write = outermost(append(write, changed...), nil)
	w := confine.Walls{Name: p.Name, Read: outermost(append(read, more...), write), Write: write, Offline: s.Offline(), Memory: s.Memory, CPUs: s.CPUs, Need: s.Require, Processes: processes()}
	return w
}

// volumes returns the paths that a container of the program has.
func (f folders) volumes(s Spec) (read, write []string) {
	for _, path := range s.Read {
		read = append(read, f.expand(path))
	}
	for _, path := range s.Write {
		write = append(write, f.expand(path))
	}
	return outermost(read, nil), outermost(append(write, f.state), nil)
}

// outermost returns the paths that are not within another one of them or of others, in their order: each costs a start a
// mount or a rule of the kernel.
func outermost(paths, others []string) (all []string) {
	for i, path := range paths {
		paths[i] = filepath.Clean(path)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		within := func(dir string) bool { return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }
		if !slices.ContainsFunc(all, within) && !slices.ContainsFunc(others, within) {
			all = append(all, path)
		}
	}
	return all
}

// maxProcesses is how many processes and threads a server may add to the ones of its user.
const maxProcesses = 1024

// Confine returns a program in the strongest sandbox that this machine has. If it leaves something open, the error says so
// if Spec.Require is set, and else Gaps do. Without any sandbox, and for a program that is an engine which runs a container,
// the program is returned as it is.
func (m *Machine) Confine(p Program, s Spec) (*Confined, error) {
	way, gaps, err := m.choose(p, s)
	if err != nil {
		return nil, err
	}
	c := &Confined{Program: p, Way: way, Gaps: gaps}
	if way == None || p.ownContainer() {
		return c, nil
	}
	f, err := m.folders(p.Name)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{f.state, filepath.Join(f.state, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("the state folder of the sandbox: %w", err)
		}
	}
	w := f.walls(p, s)
	if err := m.confined(c, f, s, w); err != nil {
		c.End()
		return nil, err
	}
	return c, nil
}

// confined fills in how a program is started.
func (m *Machine) confined(c *Confined, f folders, s Spec, w confine.Walls) error {
	executable, err := self()
	needsSelf := c.Way != Container || s.Hosts() != nil
	if err != nil && needsSelf {
		return err
	}
	if c.Way == Container { // the engine has its images and its registries in the home of the user
		c.Env = m.forEngine(c.Env)
	} else {
		c.Env = homeOf(c.Program, f)
	}
	if hosts := s.Hosts(); hosts != nil {
		p, err := m.proxy(c, hosts)
		if err != nil {
			return err
		}
		if c.Way == Landlock {
			w.Port = p.port()
		} else {
			w.Port, w.Carry = carriedPort, p.socket
			w.Write = append(w.Write, filepath.Dir(p.socket))
		}
		c.Env = set(c.Env, p.environment(w.Port)...)
	}
	switch c.Way {
	case Container:
		engine, err := m.engine()
		if err != nil {
			return err
		}
		return contain(c, engine, executable, f, s, w)
	case Bubblewrap:
		bwrap, err := m.bwrap()
		if err != nil {
			return err
		}
		w.Boxed = true
		c.Args = boxed(c, executable, f, w)
		c.Path = bwrap
	default:
		c.Args = w.Arguments(c.Path, c.Args...)
		c.Path = executable
	}
	return nil
}

// carriedPort is the port of the proxy in a network of its own.
const carriedPort = 3128

// proxy starts the proxy of a program.
func (m *Machine) proxy(c *Confined, hosts []string) (*proxy, error) {
	socket := ""
	if c.Way != Landlock {
		dir, err := os.MkdirTemp("", "weir-sandbox-")
		if err != nil {
			return nil, err
		}
		c.end = append(c.end, func() { _ = os.RemoveAll(dir) })
		socket = filepath.Join(dir, "proxy")
	}
	name := c.Name
	reached := func(host, port string, refused error) {
		if m.o.Reached != nil {
			m.o.Reached(name, host, port, refused)
		}
	}
	p, err := newProxy(hosts, socket, reached, m.o.Logger)
	if err == nil {
		c.end = append(c.end, p.close)
	}
	return p, err
}

// homeOf returns the environment of a program whose home is its state folder. Runners find there what they have kept; what
// they have installed for the user stays where it is.
func homeOf(p Program, f folders) []string {
	home, _ := get(p.Env, "HOME")
	env := set(p.Env, "HOME="+f.state, "TMPDIR="+filepath.Join(f.state, "tmp"))
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "TMP", "TEMP", "npm_config_cache", "UV_CACHE_DIR", "PIP_CACHE_DIR"} {
		if !slices.Contains(p.Own, name) {
			env = slices.DeleteFunc(env, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
		}
	}
	keep := map[string]string{"UV_PYTHON_INSTALL_DIR": ".local/share/uv/python", "PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup", "VOLTA_HOME": ".volta", "ASDF_DATA_DIR": ".asdf", "MISE_DATA_DIR": ".local/share/mise"}
	for _, name := range slices.Sorted(maps.Keys(keep)) {
		if dir := filepath.Join(home, keep[name]); home != "" && isDir(dir) {
			if _, there := get(env, name); !there {
				env = append(env, name+"="+dir)
			}
		}
	}
	return env
}

// engineVariables are variables of weir's environment by which an engine finds its daemon and its settings.
var engineVariables = []string{"HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINERS_CONF"}

// forEngine returns the environment of an engine that starts a program.
func (m *Machine) forEngine(env []string) []string {
	for _, name := range engineVariables {
		if value, ok := m.o.Lookup(name); ok {
			env = set(env, name+"="+value)
		}
	}
	return env
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func get(env []string, name string) (string, bool) {
	for _, pair := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// set replaces variables.
func set(env []string, pairs ...string) []string {
	for _, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		env = slices.DeleteFunc(slices.Clone(env), func(had string) bool { return strings.HasPrefix(had, name+"=") })
		env = append(env, pair)
	}
	return env
}

// boxed returns the arguments of bubblewrap for a program.
func boxed(c *Confined, self string, f folders, w confine.Walls) []string {
	args := []string{
		"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--proc", "/proc", "--dev", "/dev", "--bind", filepath.Join(f.state, "tmp"), "/tmp",
	}
	if w.Offline {
		args = append(args, "--unshare-net")
	}
	type mount struct{ flag, path string }
	var mounts []mount
	for _, path := range w.Read {
		if to, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" && strings.HasPrefix(strings.TrimPrefix(to, "/"), "usr/") { // such as /bin
			args = append(args, "--symlink", to, path)
			continue
		}
		mounts = append(mounts, mount{"--ro-bind-try", path})
	}
	for _, path := range w.Write {
		if !strings.HasPrefix(path, "/dev/") {
			mounts = append(mounts, mount{"--bind-try", path})
		}
	}
	// A folder within another is mounted after it, and one that may be changed after one that may not.
	slices.SortStableFunc(mounts, func(a, b mount) int { return strings.Count(a.path, "/") - strings.Count(b.path, "/") })
	for _, one := range mounts {
		if _, err := os.Stat(one.path); err == nil { // bubblewrap ends at one that this user may not see
			args = append(args, one.flag, one.path, one.path)
		}
	}
	const inside = "/run/weir-confine"
	args = append(args, "--ro-bind", self, inside)
	if c.Dir != "" {
		args = append(args, "--chdir", c.Dir)
	} else {
		args = append(args, "--chdir", f.state)
	}
	args = append(args, "--", inside)
	return append(args, w.Arguments(c.Path, c.Args...)...)
}

// contain fills in how a program is started in a container of an engine.
func contain(c *Confined, engine, self string, f folders, s Spec, w confine.Walls) error {
	name := "weir-" + fileName(c.Name) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	args := []string{"run", "--rm", "-i", "--init", "--name", name, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", strconv.Itoa(maxProcesses), "--tmpfs", "/tmp"}
	if s.Offline() {
		args = append(args, "--network", "none")
	}
	if s.Memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(s.Memory, 10))
	}
	if s.CPUs > 0 {
		args = append(args, "--cpus", strconv.Itoa(s.CPUs))
	}
	volume := func(path, mode string) { args = append(args, "-v", path+":"+path+":"+mode) }
	read, write := f.volumes(s)
	for _, path := range read {
		volume(path, "ro")
	}
	for _, path := range write {
		volume(path, "rw")
	}
	// The engine itself keeps its environment; the server gets the names that it is told, without the values on a command
	// line that every process reads.
	given := c.Env
	for _, pair := range given {
		name, _, _ := strings.Cut(pair, "=")
		if name != "PATH" && name != "HOME" && name != "TMPDIR" && !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "DOCKER_") && !strings.HasPrefix(name, "CONTAINER") {
			args = append(args, "-e", name)
		}
	}
	args = append(args, "-e", "HOME="+f.state, "-e", "TMPDIR=/tmp")
	if c.Dir != "" {
		args = append(args, "-w", c.Dir)
	}
	inside := append([]string{s.Image, c.Path}, c.Args...)
	if c.Path == "" {
		inside = []string{s.Image}
	}
	if w.Carry != "" {
		if c.Path == "" {
			return errors.New("sandbox.net with hosts needs command: weir carries the connections of the program in the container")
		}
		const at = "/run/weir-confine"
		// The container bounds the files already.
		w = confine.Walls{Name: w.Name, Write: []string{"/"}, Offline: true, Port: w.Port, Carry: w.Carry, Boxed: true, Memory: w.Memory}
		args = append(args, "-v", self+":"+at+":ro", "-v", filepath.Dir(w.Carry)+":"+filepath.Dir(w.Carry)+":rw", "--entrypoint", at)
		inside = append([]string{s.Image}, w.Arguments(c.Path, c.Args...)...)
	}
	c.Path, c.Args, c.Dir = engine, append(args, inside...), ""
	c.end = append(c.end, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = exec.CommandContext(ctx, engine, "kill", name).Run() // it has ended already, most of the time
	})
	return nil
}
