package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
)

// checkConfig reports the findings of the reader of the configuration.
func (d *doctor) checkConfig(context.Context) []Finding {
	if d.Path == "" {
		return []Finding{found("config-missing", "configuration", "")}
	}
	var list []Finding
	if d.Distrust != nil {
		list = append(list, found("config-untrusted", d.Path, ""))
	}
	for _, p := range d.Problems {
		list = append(list, found("config-broken", d.Path, "%s", p))
	}
	if d.Config == nil {
		if len(list) == 0 {
			list = append(list, found("config-broken", d.Path, ""))
		}
		return list
	}
	type spot struct {
		line, column int
		key          string
	}
	faults := map[spot]bool{}
	for _, s := range d.Config.Servers {
		if s.Disabled {
			continue
		}
		for _, p := range s.Problems {
			faults[spot{p.Line, p.Column, p.Key}] = true
			if d.Only == "" || s.Name == d.Only {
				list = append(list, found("config-server", "server "+s.Name, "%s", p))
			}
		}
	}
	for _, w := range d.Warnings {
		if d.Only == "" && !faults[spot{w.Line, w.Column, w.Key}] {
			list = append(list, found("config-warning", d.Path, "%s", w))
		}
	}
	if len(list) == 0 && d.Only == "" {
		list = append(list, fine("config", d.Path, "%d servers, no fault", len(d.Config.Enabled())))
	}
	return list
}

// checkModes reports files with secrets that other users can read.
func (d *doctor) checkModes(context.Context) []Finding {
	if d.env.windows() {
		return nil // folders of a user are the user's by their access lists
	}
	files := slices.Clone(d.Secrets)
	if d.Config != nil {
		if data, err := d.env.ReadFile(d.Path); err == nil && holdsAny(string(data), d.Config.Credentials()) {
			files = append(files, d.Path)
		}
		for _, s := range d.Config.Servers {
			if s.EnvFile != "" && !s.Faulty() {
				files = append(files, s.EnvFile)
			}
		}
	}
	slices.Sort(files)
	var list []Finding
	for _, file := range slices.Compact(files) {
		info, err := d.env.Stat(file)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		f := found("config-readable", file, "other users can read the secrets in it (mode %04o)", info.Mode().Perm()).fix("Run: chmod 600 %s", file)
		f.Repair = &Repair{Show: "chmod 600 " + file, Do: func(context.Context) (int, error) { return 0, d.env.Chmod(file, 0o600) }}
		list = append(list, f)
	}
	return list
}

// holdsAny reports whether a text has one of some secrets in it.
func holdsAny(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(secret string) bool { return secret != "" && strings.Contains(text, secret) })
}

// programOf returns the program of a server without the cmd /c that Windows needs for scripts.
func programOf(s *config.Server) string {
	name := strings.ToLower(s.Command)
	if (name == "cmd" || name == "cmd.exe") && len(s.Args) > 1 && strings.EqualFold(s.Args[0], "/c") {
		return s.Args[1]
	}
	return s.Command
}
