package doctor

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A runtime is a program that other programs need.
type runtimeOf struct {
	name    string   // as people call it
	used    []string // commands that need it
	program string   // that prints its version
	args    []string
	least   [2]int // the oldest version that is not reported
	install string
}

var runtimes = []runtimeOf{
	{"Node.js", []string{"node", "npx", "npm", "pnpm", "yarn"}, "node", []string{"--version"}, [2]int{18, 0}, "install Node.js 20 or newer from https://nodejs.org"},
	{"Python", []string{"python", "python3"}, "", []string{"--version"}, [2]int{3, 10}, "install Python 3.10 or newer from https://www.python.org"},
	{"uv", []string{"uv", "uvx"}, "uv", []string{"--version"}, [2]int{0, 4}, "install uv: https://docs.astral.sh/uv"},
	{"Bun", []string{"bun", "bunx"}, "bun", []string{"--version"}, [2]int{1, 0}, "install Bun: https://bun.sh"},
	{"Docker", []string{"docker"}, "docker", []string{"version", "--format", "{{.Server.Version}}"}, [2]int{20, 10}, "install Docker: https://docs.docker.com/get-docker"},
}

// versionLimit bounds a program that is asked for its version.
const versionLimit = 2 * time.Second

var version = regexp.MustCompile(`(\d+)\.(\d+)`)

// checkRuntime looks for the programs of servers, as the shell finds them and as the service does.
func (d *doctor) checkRuntime(ctx context.Context) []Finding {
	var list []Finding
	service, serviceErr := d.service()
	asked := map[string]string{} // runtime programs that are there, and where
	for _, s := range d.servers() {
		command := programOf(s)
		if command == "" {
			continue
		}
		searched := d.env.Getenv("PATH")
		if own, ok := s.Env["PATH"]; ok {
			searched = own.Reveal()
		}
		thing := "server " + s.Name
		full := d.env.find(command, searched)
		_, ownPath := s.Env["PATH"]
		served := serviceErr == nil && service.Installed && service.Path != "" && !ownPath
		if full == "" && served { // this command's PATH may come from a script, the service's from the shell
			full = d.env.find(command, service.Path)
		}
		name := commandName(command)
		at := slices.IndexFunc(runtimes, func(r runtimeOf) bool { return slices.Contains(r.used, name) })
		if full == "" {
			f := found("runtime-missing", thing, "there is no program %q in PATH", command)
			if strings.ContainsAny(command, `/\`) {
				f = found("runtime-missing", thing, "there is no program at %s, or it may not be run", command).fix("Correct command of the server %q.", s.Name)
			} else if at >= 0 {
				f = f.fix("For %s, %s.", command, runtimes[at].install)
			}
			list = append(list, f)
			continue
		}
		if served && d.env.find(command, service.Path) == "" {
			list = append(list, found("runtime-service", thing, "%s is at %s, which is in no folder of the service's PATH", command, full))
		}
		list = append(list, d.checkPlace(thing, command, full, service.Installed)...)
		if at >= 0 && asked[runtimes[at].name] == "" {
			asked[runtimes[at].name] = full
		}
	}
	return append(list, d.checkVersions(ctx, asked)...)
}

// commandName returns the name of a program without its folder and the endings of Windows.
func commandName(command string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// checkPlace reports folders that only some processes know.
func (d *doctor) checkPlace(thing, command, full string, service bool) []Finding {
	slashed := strings.ReplaceAll(full, `\`, "/")
	bare := !strings.ContainsAny(command, `/\`)
	switch {
	case bare && !service && (strings.Contains(slashed, "/.nvm/") || strings.Contains(slashed, "/fnm_multishells/") || strings.Contains(slashed, "/.fnm/")):
		return []Finding{found("runtime-nvm", thing, "%s is %s: a folder that only interactive shells have in PATH", command, full)}
	case d.env.OS == "linux" && d.inWSL() && (len(slashed) > 7 && strings.HasPrefix(slashed, "/mnt/") && slashed[6] == '/' || strings.HasSuffix(slashed, ".exe")):
		return []Finding{found("runtime-wsl", thing, "weir runs in WSL, and %s is a program of Windows (%s)", command, full)}
	}
	return nil
}

// inWSL reports whether this Linux runs within Windows.
func (d *doctor) inWSL() bool {
	text, err := d.env.ReadFile("/proc/version")
	return err == nil && strings.Contains(strings.ToLower(string(text)), "microsoft")
}

// checkVersions asks the runtimes that are in use for their versions, side by side.
func (d *doctor) checkVersions(ctx context.Context, asked map[string]string) []Finding {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	results := make([]chan []Finding, len(runtimes))
	for i, r := range runtimes {
		results[i] = make(chan []Finding, 1)
		if asked[r.name] == "" {
			results[i] <- nil
			continue
		}
		go func() { results[i] <- d.checkVersion(ctx, r, asked[r.name]) }()
	}
	var list []Finding
	for _, c := range results {
		list = append(list, <-c...)
	}
	return list
}

func (d *doctor) checkVersion(ctx context.Context, r runtimeOf, used string) []Finding {
	program := used
	if r.program != "" && commandName(used) != r.program {
		// node stands next to npx, but not where npx is a link or a shim.
		program = d.env.find(r.program, d.env.Getenv("PATH"))
	}
	if program == "" {
		return []Finding{found("runtime-missing", r.name, "%s is there, and %s, which it needs, is not in PATH", used, r.program).fix("%s.", capital(r.install))}
	}
	out, err := d.env.Run(ctx, program, r.args...)
	text := strings.TrimSpace(string(out))
	switch {
	case ctx.Err() != nil && r.name == "Docker", err != nil && r.name == "Docker":
		return []Finding{found("runtime-docker", r.name, "the daemon does not answer: %s", oneLine(text, err))}
	case ctx.Err() != nil:
		return []Finding{found("doctor-late", r.name, "%s did not tell its version within %s", program, versionLimit)}
	case err != nil:
		return []Finding{found("runtime-unusable", r.name, "%s fails: %s", program, oneLine(text, err))}
	}
	m := version.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	major, _ := strconv.Atoi(m[1]) // digits; a number that overflows is new enough
	minor, _ := strconv.Atoi(m[2])
	if major < r.least[0] || major == r.least[0] && minor < r.least[1] {
		return []Finding{found("runtime-version", r.name, "%s is version %s.%s; servers of today need %d.%d", program, m[1], m[2], r.least[0], r.least[1]).fix("%s.", capital(r.install))}
	}
	return []Finding{fine("runtime", r.name, "%s (%s)", strings.TrimPrefix(oneLine(text, nil), "v"), program)}
}

// oneLine returns the last line of a program's output, or its error if it wrote nothing.
func oneLine(text string, err error) string {
	text = text[strings.LastIndexByte(text, '\n')+1:]
	if text = strings.TrimSpace(text); text != "" {
		return fmt.Sprintf("%.200s", text)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
