package sandbox

import (
	"cmp"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/host/confine"
)

// Lesson collects what the program of a server touches while it runs without walls. It is safe for concurrent use.
type Lesson struct {
	mu      sync.Mutex // guards below
	files   map[string]use
	hosts   map[string]bool
	direct  map[string]bool // addresses past the proxy
	granted folders
	program Program
	blind   error // why files were not watched
	full    bool
}

// maxTouched bounds the files, and the hosts, of a Lesson.
const maxTouched = 20_000

// Proposal is what a program needs in addition to what auto gives.
type Proposal struct {
	Read, Write []string // with ~ for the home folder
	// Net is for Spec.Net: hosts, "none", or "all" if it makes connections that no proxy carries; Direct are these.
	Net    []string
	Direct []string
	// Withheld are files that it touched and that are not proposed: they hold secrets, or are sockets of other programs.
	Withheld []string
	// Missed are files that it looked for in its own home, and that are in the home of the user.
	Missed []string
	// Blind says why its files were not watched, nil if they were.
	Blind error
	// Full says that it touched more than is kept.
	Full bool
}

// Learn starts a program with the home, the variables and the caches of a sandbox, but without walls: its proxy lets every
// host through, and a Lesson is told what it touches. The caller calls End when it has ended.
func (m *Machine) Learn(p Program, lesson *Lesson) (*Confined, error) {
	f, err := m.folders(p.Name)
	if err != nil {
		return nil, err
	}
	c := &Confined{Program: p, Way: None}
	dir, err := os.MkdirTemp("", "weir-learn-")
	if err != nil {
		return nil, err
	}
	c.end = append(c.end, func() { _ = os.RemoveAll(dir) })
	f.state = filepath.Join(dir, "state")
	if err := os.MkdirAll(filepath.Join(f.state, "tmp"), 0o700); err != nil {
		c.End()
		return nil, err
	}
	proxy, err := newProxy(nil, "", func(host, port string, _ error) { lesson.reached(host, port) }, m.o.Logger)
	if err != nil {
		c.End()
		return nil, err
	}
	c.end = append(c.end, proxy.close)
	lesson.begin(p, f)
	c.Env = set(homeOf(c.Program, f), proxy.environment(proxy.port())...)
	executable, err := self()
	if err == nil {
		socket := filepath.Join(dir, "watch")
		var watching *watcher
		if watching, err = watch(socket, func(t touch) { lesson.touched(t, proxy.port()) }); err == nil {
			c.end = append(c.end, watching.close)
			c.Args = confine.Walls{Name: p.Name, Watch: socket}.Arguments(c.Path, c.Args...)
			c.Path = executable
		}
	}
	lesson.seeing(err)
	return c, nil
}

func (l *Lesson) begin(p Program, f folders) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.program, l.granted = p, f
	if l.files == nil {
		l.files, l.hosts, l.direct = map[string]use{}, map[string]bool{}, map[string]bool{}
	}
}

func (l *Lesson) seeing(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blind = cmp.Or(l.blind, err)
}

func (l *Lesson) reached(host, port string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if port != "443" && port != "80" {
		host = net.JoinHostPort(host, port)
	}
	l.full = l.full || len(l.hosts) == maxTouched
	if len(l.hosts) < maxTouched {
		l.hosts[host] = true
	}
}

func (l *Lesson) touched(t touch, proxy int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case t.path != "":
		l.full = l.full || len(l.files) == maxTouched
		if len(l.files) < maxTouched || l.files[t.path] != nothing {
			l.files[t.path] = max(l.files[t.path], t.use)
		}
	case int(t.address.Port()) == proxy && t.address.Addr().IsLoopback():
	case t.address.Port() == 53 || t.address.Port() == 0: // names, which the proxy looks up; a port 0 only asks for a route
	default:
		l.full = l.full || len(l.direct) == maxTouched
		if len(l.direct) < maxTouched {
			l.direct[t.address.String()] = true
		}
	}
}

// keepers are folders and files of a home whose contents are secrets, or prove who the user is.
var keepers = []string{
	".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".password-store", ".config/gcloud", ".config/gh", ".config/weir", ".local/state/weir",
	".local/share/weir", ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".bash_history", ".zsh_history", ".claude.json", ".cursor", ".codex",
}

// Proposal returns what the program needs, after it has ended.
func (l *Lesson) Proposal() Proposal {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Proposal{Net: slices.Sorted(maps.Keys(l.hosts)), Direct: slices.Sorted(maps.Keys(l.direct)), Blind: l.blind, Full: l.full}
	switch {
	case len(p.Direct) > 0 || l.blind != nil && len(p.Net) == 0:
		p.Net = []string{"all"} // without a look at its calls, a program that uses no proxy shows no host
	case len(p.Net) == 0:
		p.Net = []string{"none"}
	}
	f := l.granted
	w := f.walls(l.program, Spec{})
	for _, path := range slices.Sorted(maps.Keys(l.files)) {
		l.judge(&p, f, w, path, l.files[path])
	}
	p.Write = f.gathered(p.Write)
	p.Read = slices.DeleteFunc(f.gathered(p.Read), func(path string) bool { return within(path, p.Write) })
	for _, list := range []*[]string{&p.Read, &p.Write, &p.Withheld, &p.Missed} {
		for i, path := range *list {
			(*list)[i] = f.tilde(path)
		}
	}
	return p
}

// judge adds a file to a Proposal, if the program needs it and has it not.
func (l *Lesson) judge(p *Proposal, f folders, w confine.Walls, path string, how use) {
	if rest, own := strings.CutPrefix(path, f.state+"/"); own {
		if _, err := os.Stat(filepath.Join(f.home, rest)); err == nil && f.home != "" && how == reads && !isDir(filepath.Join(f.home, rest)) {
			p.Missed = append(p.Missed, filepath.Join(f.home, rest))
		}
		return
	}
	for _, not := range []string{"/proc", "/sys", "/dev"} {
		if path == not || strings.HasPrefix(path, not+"/") {
			return
		}
	}
	if how == creates {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && within(path, w.Write) {
			return
		}
		path = filepath.Dir(path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return // it is not there with walls or without
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	have := w.Write
	if how == reads {
		have = append(slices.Clone(w.Read), w.Write...)
	}
	if within(path, have) { // a link that the program sees may lead to a file that it does not
		path = real
	}
	if within(path, have) {
		return
	}
	switch {
	case how == connects, info.Mode()&os.ModeSocket != 0, f.keeps(path), f.keeps(real), info.IsDir() && !f.grantable(path):
		p.Withheld = append(p.Withheld, path)
	case how == reads && !readable(path):
		// The user may not read it either.
	case how == reads:
		p.Read = append(p.Read, path)
	default:
		p.Write = append(p.Write, path)
	}
}

func readable(path string) bool {
	file, err := os.Open(path)
	if err == nil {
		file.Close()
	}
	return err == nil
}

// within reports whether a path is one of some, or below one.
func within(path string, some []string) bool {
	return slices.ContainsFunc(some, func(one string) bool { return path == one || strings.HasPrefix(path, one+"/") })
}

// keeps reports whether a path is one of keepers, or below one.
func (f folders) keeps(path string) bool {
	rest, below := strings.CutPrefix(path, f.home+"/")
	return below && f.home != "" && within(rest, keepers)
}

// togetherAt is how many files of a folder are named as the folder.
const togetherAt = 4

// gathered returns paths of which those in one folder, if they are many, are the folder.
func (f folders) gathered(paths []string) (all []string) {
	count := map[string]int{}
	for _, path := range paths {
		count[filepath.Dir(path)]++
	}
	for _, path := range paths {
		if dir := filepath.Dir(path); count[dir] >= togetherAt && f.grantable(dir) && !f.holds(dir) {
			path = dir
		}
		all = append(all, path)
	}
	slices.Sort(all)
	var out []string // a folder comes before its files
	for _, path := range slices.Compact(all) {
		if !within(path, out) {
			out = append(out, path)
		}
	}
	return out
}

// holds reports whether one of keepers is in a folder.
func (f folders) holds(dir string) bool {
	return slices.ContainsFunc(keepers, func(name string) bool { return within(filepath.Join(f.home, name), []string{dir}) })
}

// tilde writes the home folder as ~.
func (f folders) tilde(path string) string {
	if rest, ok := strings.CutPrefix(path, f.home+"/"); ok && f.home != "" {
		return "~/" + rest
	}
	return path
}
