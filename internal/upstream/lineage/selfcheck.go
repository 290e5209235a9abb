package lineage

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/net/address"
)

// selfCheck finds the configuration entries that would start or call this very weir, before any server
// is started. It cannot see through scripts that start weir; lineage and router.Loops find these at
// run time.
type selfCheck struct {
	exe    string // path of this process's executable
	env    []string
	listen bool // this process serves at the configured address
}

// OmitItself returns a config.Options.Omit that leaves out entries that would make weir start or
// call itself. environ is the environment of this process; listen says that this process serves at
// the configured address.
func OmitItself(environ []string, listen bool) func(*config.Config, *config.Server) string {
	exe, _ := os.Executable() // if unknown, no command is recognized by its path
	i := &selfCheck{exe: exe, env: Inherited(environ), listen: listen}
	return i.omit
}

func (i *selfCheck) omit(c *config.Config, s *config.Server) string {
	const fix = ". The clients of weir may need the entry, weir does not: if the file is weir's alone, remove the entry"
	switch {
	case s.Command != "" && i.starts(s, c.Path()):
		return fmt.Sprintf("mcpServers.%s is left out: it starts weir with this configuration, and so weir would start itself without end%s", s.Name, fix)
	case s.Command == "" && i.listen && leadsTo(s.URL, c.Listen, c.PublicURL):
		return fmt.Sprintf("mcpServers.%s is left out: its url is this weir's own%s", s.Name, fix)
	}
	return ""
}

// starts reports whether a server's command runs weir serve, or weir attach, with the configuration
// at path.
func (i *selfCheck) starts(s *config.Server, path string) bool {
	args, ok := i.weirArgs(s)
	if !ok || path == "" || len(args) == 0 || args[0] != "serve" && args[0] != "attach" {
		return false
	}
	dir := s.Cwd
	if dir == "" {
		dir = "."
	}
	named, alone := "", false
	for n := 1; n < len(args); n++ {
		flag, value, joined := strings.Cut(args[n], "=")
		if !joined && n+1 < len(args) {
			value = args[n+1]
		}
		switch flag {
		case "--config":
			named = value
		case "--catalog":
			alone = true
		}
	}
	if named == "" {
		if alone {
			return false
		}
		found, err := config.Find(dir)
		if errors.Is(err, config.ErrNotFound) {
			found, err = place.Env{OS: runtime.GOOS, Lookup: i.lookup}.Config()
		}
		if err != nil {
			return false
		}
		named = found
	} else if !filepath.IsAbs(named) {
		named = filepath.Join(dir, named)
	}
	return realPath(named) == realPath(path)
}

// lookup reads a variable of the environment that servers inherit.
func (i *selfCheck) lookup(name string) (string, bool) {
	for _, pair := range i.env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// weirArgs returns the arguments for weir if a server's command runs weir.
func (i *selfCheck) weirArgs(s *config.Server) (args []string, ok bool) {
	if i.isExe(s) {
		return s.Args, true
	}
	runner := strings.TrimSuffix(filepath.Base(s.Command), ".exe")
	rest := slices.Clone(s.Args)
	switch {
	case runner == "go" && len(rest) > 0 && rest[0] == "run":
		rest = rest[1:]
	case slices.Contains([]string{"npx", "bunx", "pnpx"}, runner):
	case slices.Contains([]string{"npm", "pnpm", "yarn"}, runner) && len(rest) > 0 && slices.Contains([]string{"exec", "x", "dlx"}, rest[0]):
		rest = rest[1:]
	default:
		return nil, false
	}
	for n, arg := range rest {
		if isWeirPackage(runner, arg) {
			return slices.DeleteFunc(rest[n+1:], func(s string) bool { return s == "--" }), true
		}
	}
	return nil, false
}

// isExe reports whether a server's command is this process's executable.
func (i *selfCheck) isExe(s *config.Server) bool {
	own, err := os.Stat(i.exe)
	if i.exe == "" || err != nil {
		return false
	}
	command := s.Command
	if !strings.ContainsAny(command, `/\`) {
		path, set := s.Env["PATH"]
		if !set {
			value, _ := i.lookup("PATH")
			path = config.Secret(value)
		}
		command = lookIn(path.Reveal(), command)
	}
	other, err := os.Stat(command)
	return err == nil && os.SameFile(own, other)
}

// lookIn finds a program in a PATH.
func lookIn(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found
		}
	}
	return name
}

// isWeirPackage reports whether an argument of a package runner names weir's package.
func isWeirPackage(runner, arg string) bool {
	name := arg
	if at := strings.LastIndexByte(arg, '@'); at > 0 {
		name = arg[:at] // without a version
	}
	if runner == "go" {
		name = strings.TrimSuffix(filepath.ToSlash(name), "/main.go")
		return name == "cmd/weir" || strings.HasSuffix(name, "/cmd/weir")
	}
	return name == "weir-mcp" || strings.HasPrefix(name, "@") && strings.HasSuffix(name, "/weir-mcp")
}

// leadsTo reports whether a URL addresses a gateway that listens at listen or has the public URL
// public.
func leadsTo(text, listen, public string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	isFront := func(path string) bool {
		return slices.Contains([]string{"/mcp", "/sse"}, strings.TrimSuffix(path, "/"))
	}
	if p, err := url.Parse(public); err == nil && p.Host != "" && strings.EqualFold(p.Host, u.Host) {
		rest, ok := strings.CutPrefix(u.Path, strings.TrimSuffix(p.Path, "/"))
		return ok && isFront(rest)
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" || port != portIn(u) || !isFront(u.Path) {
		return false
	}
	any, err := netip.ParseAddr(host)
	all := host == "" || err == nil && any.IsUnspecified()
	return strings.EqualFold(host, u.Hostname()) || address.Loopback(u.Hostname()) && (all || address.Loopback(host))
}

// portIn returns the port of a URL, explicit or default.
func portIn(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
