package sandbox

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Way is how a program is confined.
type Way string

// The ways, the strongest first.
const (
	Container  Way = "container"
	Bubblewrap Way = "bubblewrap"
	Landlock   Way = "landlock"
	None       Way = "none"
)

// Spec says what a program may use, in addition to what its runner needs.
type Spec struct {
	// Read are files and folders that it reads, and Write are the ones that it changes as well. "~" at the start is the home
	// folder.
	Read, Write []string
	// Net is how it reaches the network: empty and "all": as weir does; "none"; or the hosts that it reaches, as "host",
	// "host:port" and "*.host".
	Net []string
	// Memory bounds what it may write to, in bytes, and CPUs its processors; 0: none.
	Memory int64
	CPUs   int
	// Image is of the container that it runs in; "" for none.
	Image string
	// Require says that a program that cannot be confined so is not started.
	Require bool
}

// Program is a program to start.
type Program struct {
	Name string // of the server
	Path string // absolute
	Args []string
	Env  []string // "key=value"
	Own  []string // names of the variables of Env that its entry gives it; the others are weir's
	Dir  string   // "" is this process's
}

// ownContainer reports whether the program is an engine that runs a container: the walls are those of the container, and the
// engine itself needs its daemon and its images.
func (p Program) ownContainer() bool {
	name := strings.TrimSuffix(filepath.Base(p.Path), ".exe")
	return (name == "docker" || name == "podman" || name == "nerdctl") && len(p.Args) > 0 && (p.Args[0] == "run" || len(p.Args) > 1 && p.Args[0] == "container" && p.Args[1] == "run")
}

// Offline reports whether the program reaches no network, or only named hosts.
func (s Spec) Offline() bool { return len(s.Net) > 0 && !slices.Equal(s.Net, []string{"all"}) }

// Hosts returns the hosts that the program reaches, nil unless they are named.
func (s Spec) Hosts() []string {
	if !s.Offline() || slices.Equal(s.Net, []string{"none"}) {
		return nil
	}
	return s.Net
}

// folders are the folders of this machine that a program's needs are found with.
type folders struct {
	home  string
	state string // of the program: its home and its temporary files
}

// system are the folders and files of the system that every program reads. What a system has not is left out. Below /run there
// are files only: the sockets there lead to services, such as one that looks up names past the proxy.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/snap", "/run/current-system",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/ssl", "/etc/pki", "/etc/crypto-policies", "/etc/resolv.conf", "/etc/hosts",
	"/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/mime.types", "/etc/locale.alias", "/etc/inputrc", "/etc/magic", "/etc/fonts", "/etc/os-release", "/etc/machine-id", "/etc/pip.conf",
	"/etc/npmrc", "/etc/python3", "/etc/uv", "/etc/nix", "/etc/static", "/etc/java-21-openjdk", "/etc/java-17-openjdk", "/etc/gitconfig",
	"/run/systemd/resolve/resolv.conf", "/run/systemd/resolve/stub-resolv.conf", "/run/resolvconf/resolv.conf", "/mnt/wsl/resolv.conf", "/var/lib/ca-certificates",
	"/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
}

// devices are files that every program reads and writes.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// shims are folders below the home with programs that start others; the second is what these read.
var shims = map[string][]string{
	".pyenv": {".pyenv"}, ".rbenv": {".rbenv"}, ".nodenv": {".nodenv"}, ".asdf": {".asdf", ".tool-versions"}, ".volta": {".volta"}, ".nvm": {".nvm"}, ".bun": {".bun"},
	".deno": {".deno"}, ".cargo": {".cargo/bin"}, ".local": {".local/bin", ".local/share/uv", ".local/share/pipx", ".local/share/mise", ".local/share/fnm", ".local/lib"}, "go": {"go/bin"},
}

// needs returns what a program reads and writes by itself: the system, its runner and its own files, the folder that it
// works in, and the paths that its arguments and its own variables name. Variables of weir name paths of the user, such as
// XDG_STATE_HOME, which are not the program's.
func (f folders) needs(p Program) (read, write []string) {
	read = append(slices.Clone(system), f.installation(p.Path)...)
	if interpreter := interpreterOf(p.Path); interpreter != "" {
		read = append(read, f.installation(interpreter)...)
	}
	for pair := range slices.Values(p.Env) {
		if dirs, ok := strings.CutPrefix(pair, "PATH="); ok {
			for _, dir := range filepath.SplitList(dirs) {
				if filepath.IsAbs(dir) {
					read = append(read, f.installation(filepath.Join(dir, "x"))...)
				}
			}
		}
	}
	write = append(slices.Clone(devices), f.state)
	if p.Dir != "" && f.grantable(p.Dir) {
		write = append(write, p.Dir)
	}
	script := scriptOf(p)
	if script != "" {
		read = append(read, projectOf(script, f)...)
	}
	for i, arg := range p.Args {
		if i < len(p.Args) && arg != script {
			_, value, found := strings.Cut(arg, "=")
			if !found {
				value = arg
			}
			write = append(write, f.named(value)...)
		}
	}
	for _, pair := range p.Env {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case certificates[name]:
			read = append(read, f.named(value)...)
		case slices.Contains(p.Own, name) && !pathVariables[name] && !strings.HasSuffix(name, "PATH"):
			write = append(write, f.named(value)...)
		}
	}
	return read, write
}

// pathVariables are variables of the environment whose paths are no files of the program.
var pathVariables = map[string]bool{"HOME": true, "PWD": true, "OLDPWD": true, "SHELL": true, "TMPDIR": true, "TMP": true, "TEMP": true, "USER": true, "LOGNAME": true, "XDG_RUNTIME_DIR": true, "DBUS_SESSION_BUS_ADDRESS": true, "DISPLAY": true, "XAUTHORITY": true}

// certificates are variables of weir whose files every program reads.
var certificates = map[string]bool{"SSL_CERT_FILE": true, "SSL_CERT_DIR": true, "NODE_EXTRA_CA_CERTS": true}

// installation returns what a program at a path reads of its own installation.
func (f folders) installation(path string) (read []string) {
	if !filepath.IsAbs(path) {
		return nil
	}
	add := func(path string) {
		dir := filepath.Dir(path)
		if rest, ok := strings.CutPrefix(path, f.home+"/"); ok && f.home != "" {
			top, _, _ := strings.Cut(rest, "/")
			for _, one := range shims[top] {
				read = append(read, filepath.Join(f.home, one))
			}
			if shims[top] != nil {
				return
			}
		}
		if base := filepath.Base(dir); (base == "bin" || base == "shims" || base == "sbin") && f.grantable(filepath.Dir(dir)) {
			dir = filepath.Dir(dir)
		}
		if f.grantable(dir) {
			read = append(read, dir)
		} else {
			read = append(read, path)
		}
	}
	add(path)
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		add(real)
	}
	return read
}

// interpreterOf returns the program that a script names in its first line, "" for other files. The environment of a Python
// server names one of its own, which is a link to the one of the system or of a version manager.
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	line, _ := bufio.NewReader(io.LimitReader(file, 4096)).ReadString('\n') // what is there without an end is enough
	rest, script := strings.CutPrefix(line, "#!")
	if words := strings.Fields(rest); script && len(words) > 0 && filepath.IsAbs(words[0]) {
		return words[0]
	}
	return ""
}

// grantable reports whether a folder may be given as a whole because a program is told its path: not the root, not the home,
// not a folder above it, and not one that belongs to all.
func (f folders) grantable(dir string) bool {
	dir = filepath.Clean(dir)
	return dir != "/" && dir != "/tmp" && dir != "/var" && dir != "/var/tmp" && dir != "/home" && dir != "/etc" && dir != "/proc" && dir != "/sys" && dir != "/dev" && dir != "/run" &&
		dir != f.home && !strings.HasPrefix(f.home, dir+"/")
}

// named returns the path that an argument names, or the folder in which a file is not there yet.
func (f folders) named(text string) []string {
	text = f.expand(text)
	if !filepath.IsAbs(text) || strings.HasPrefix(text, "/proc") || strings.HasPrefix(text, "/dev") || strings.HasPrefix(text, "/sys") {
		return nil
	}
	info, err := os.Stat(text)
	switch {
	case err == nil && (!info.IsDir() || f.grantable(text)):
		return []string{text}
	case err != nil && f.grantable(filepath.Dir(text)):
		if dir, err := os.Stat(filepath.Dir(text)); err == nil && dir.IsDir() {
			return []string{filepath.Dir(text)}
		}
	}
	return nil
}

// expand replaces ~ at the start of a path.
func (f folders) expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && f.home != "" && (rest == "" || rest[0] == '/') {
		return f.home + rest
	}
	return path
}

// scriptOf returns the file that an interpreter is told to run, "" if there is none.
func scriptOf(p Program) string {
	name := strings.TrimRight(filepath.Base(p.Path), "0123456789.")
	if !slices.Contains([]string{"node", "nodejs", "python", "deno", "bun", "ruby", "perl", "java", "bash", "sh", "tsx", "ts-node"}, name) {
		return ""
	}
	for _, arg := range p.Args {
		if !strings.HasPrefix(arg, "-") && strings.ContainsRune(arg, '/') {
			return arg
		}
	}
	return ""
}

// projectOf returns the folder of the project that a script belongs to: the outermost that has a file of a project, without
// leaving what is grantable.
func projectOf(script string, f folders) []string {
	if !filepath.IsAbs(script) {
		return nil // in the working folder
	}
	if real, err := filepath.EvalSymlinks(script); err == nil {
		script = real
	}
	best := filepath.Dir(script)
	for dir := best; f.grantable(dir); dir = filepath.Dir(dir) {
		for _, mark := range []string{"package.json", "pyproject.toml", "node_modules", "pyvenv.cfg", "deno.json", "setup.py"} {
			if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
				best = dir
			}
		}
	}
	if !f.grantable(best) {
		return []string{script}
	}
	return []string{best}
}
