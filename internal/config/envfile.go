package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// maxEnvFile bounds the file of env_file, in bytes.
const maxEnvFile = 1 << 20

// readEnvFile adds the variables of the entry's env_file to its env. A variable that env names
// keeps the value of env. The values are secrets, as the values of env are.
func readEnvFile(d *decoder, s *Server, path string) {
	key := strict.Join(path, "env_file")
	if s.EnvFile == "" {
		if d.Set(key) && !d.Bad(key) {
			d.Fail(d.At(key), key, "%s is empty", key)
		}
		return
	}
	if s.Command == "" && s.URL != "" {
		d.Strict(d.At(key), key, "%s has no effect without %s.command", key, path)
		return
	}
	if !filepath.IsAbs(s.EnvFile) {
		if d.dir == "" {
			return // The configuration is in no folder.
		}
		s.EnvFile = filepath.Join(d.dir, s.EnvFile)
	}
	if d.expand.opts.ReadFile == nil {
		return
	}
	data, err := d.expand.opts.ReadFile(s.EnvFile)
	if err != nil {
		d.Report(d.At(key), key, err, "%s: %q: %s; create the file, or remove the key", key, strict.Clip(s.EnvFile), readMessage(err))
		return
	}
	variables, err := ParseEnvFile(data)
	if err != nil {
		d.Fail(d.At(key), key, "%s: %q: %v", key, strict.Clip(s.EnvFile), err)
		return
	}
	for name, value := range variables {
		if _, set := s.Env[name]; set {
			continue
		}
		if s.Env == nil {
			s.Env = make(map[string]Secret, len(variables))
		}
		s.Env[name] = Secret(value)
		if !plainName(name) {
			d.expand.hidden.note(value)
		}
	}
}

// ParseEnvFile reads lines of NAME=value. A line may start with export. Single quotes around a
// value keep every character; double quotes allow \n, \t, \" and \\. Without quotes, a comment
// starts at " #". Nothing is expanded. Messages never hold a value.
func ParseEnvFile(data []byte) (map[string]string, error) {
	if len(data) > maxEnvFile {
		return nil, fmt.Errorf("the file is larger than %d KB", maxEnvFile>>10)
	}
	variables := map[string]string{}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "export "); ok {
			line = rest
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t\x00") {
			return nil, fmt.Errorf("line %d is not NAME=value", number)
		}
		value, err := unquoteEnv(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", number, strict.Clip(name), err)
		}
		variables[name] = value
	}
	return variables, nil
}

// unquoteEnv returns the value on one line of an environment file.
func unquoteEnv(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	switch value[0] {
	case '\'':
		text, rest, ok := strings.Cut(value[1:], "'")
		return text, closed(rest, ok)
	case '"':
		var out strings.Builder
		for i := 1; i < len(value); i++ {
			switch c := value[i]; {
			case c == '"':
				return out.String(), closed(value[i+1:], true)
			case c == '\\' && i+1 < len(value):
				i++
				if at := strings.IndexByte(`nrt`, value[i]); at >= 0 {
					out.WriteByte("\n\r\t"[at])
					continue
				}
				if value[i] != '"' && value[i] != '\\' {
					out.WriteByte('\\')
				}
				out.WriteByte(value[i])
			default:
				out.WriteByte(c)
			}
		}
		return "", errUnclosed
	}
	if strings.HasPrefix(value, "#") {
		return "", nil
	}
	if at := strings.Index(value, " #"); at >= 0 {
		value = strings.TrimSpace(value[:at])
	}
	return value, nil
}

var errUnclosed = errors.New("the value has no closing quote on its line")

// closed reports text other than a comment after the closing quote of a value.
func closed(rest string, ok bool) error {
	if !ok {
		return errUnclosed
	}
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return errors.New("there is text after the closing quote")
	}
	return nil
}
