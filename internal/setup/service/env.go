package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/weir-mcp/weir/internal/host/place"
)

// The lines of service.env that weir writes are between these two. Lines around them are the user's.
const (
	envBegin = "# Written by \"weir service install\":\n"
	envEnd   = "# End. Variables of your own go below this line, as NAME=VALUE.\n"
)

// maxEnv bounds service.env, in bytes.
const maxEnv = 1 << 20

// planEnv returns service.env with the given variables in place of those that weir wrote before. With
// no variables and none of the user's, the result is nil: the file goes.
func (s *Service) planEnv(variables []string) (data []byte, isNew bool, err error) {
	old, err := place.Read(s.Env(), maxEnv)
	if isNew = errors.Is(err, fs.ErrNotExist); err != nil && !isNew {
		return nil, false, err
	}
	head, rest, found := bytes.Cut(old, []byte(envBegin))
	if found {
		if _, tail, ended := bytes.Cut(rest, []byte(envEnd)); ended {
			rest = tail
		} else {
			return nil, false, fmt.Errorf("%s has weir's first line and not its last one: remove the lines that weir wrote, up to the user's own", s.Env())
		}
	} else {
		head, rest = nil, old
	}
	if len(variables) == 0 {
		if data = append(bytes.Clone(head), rest...); len(bytes.TrimSpace(data)) == 0 {
			data = nil
		}
		return data, isNew, nil
	}
	var b strings.Builder
	b.Write(head)
	b.WriteString(envBegin)
	for _, pair := range variables {
		key, value, _ := strings.Cut(pair, "=")
		b.WriteString(key + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + "\"\n")
	}
	b.WriteString(envEnd)
	b.Write(rest)
	return []byte(b.String()), isNew, nil
}

// shellMark stands around the PATH in the output of a shell. Files that the shell reads at its
// start may print more.
const shellMark = "weir-service-path"

// ShellPath returns the PATH of the user's interactive login shell, which has the folders of nvm,
// mise and others. Run must end within the time of ctx.
func ShellPath(ctx context.Context, run func(ctx context.Context, argv ...string) (string, error), shell string) (string, error) {
	out, err := run(ctx, shell, "-lic", "echo "+shellMark+"; printenv PATH; echo "+shellMark)
	_, rest, begun := strings.Cut(out, shellMark+"\n")
	path, _, ended := strings.Cut(rest, "\n"+shellMark)
	if path = strings.TrimSpace(path); !begun || !ended || path == "" || strings.ContainsAny(path, "\n\x00") {
		return "", errors.Join(fmt.Errorf("%s does not tell its PATH", shell), err)
	}
	return path, nil
}

// exists reports whether a folder of a PATH is there.
func exists(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// CleanPath returns a PATH without folders that do not exist, folders of a single shell and
// repeated ones. Relative folders go as well: a service has no working folder of its own.
func CleanPath(path string) string {
	var kept []string
	seen := map[string]bool{}
	for dir := range strings.SplitSeq(path, ":") {
		if !strings.HasPrefix(dir, "/") || seen[dir] || strings.Contains(dir, "fnm_multishells") || strings.Contains(dir, "/_npx/") || !exists(dir) {
			continue
		}
		seen[dir] = true
		kept = append(kept, dir)
	}
	return strings.Join(kept, ":")
}
