package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// resolved holds the ports and answers of one reading for the next reading of the same file. So a
// reload neither moves a port nor asks a question again.
type resolved struct {
	ports    map[string]int      // by server name
	answers  map[string]answer   // by input id, or command; only answers of Options.Inputs
	programs map[string][]string // the keys of the answers of programs, by the server that uses them
	outside  *outside            // looked at by the reading
}

func newResolved(o *outside) resolved {
	return resolved{ports: map[string]int{}, answers: map[string]answer{}, programs: map[string][]string{}, outside: o}
}

// kept returns the ports and answers of a reading. c may be nil.
func (c *Config) kept() resolved {
	if c == nil {
		return resolved{}
	}
	return c.resolved
}

// expander replaces ${…} in the texts of mcpServers, and in secrets elsewhere:
//
//	${VAR}, ${env:VAR}   a variable of the environment
//	${VAR:-text}         the same, or text if it is unset or empty
//	${secret:NAME}       a secret that weir keeps
//	${user:NAME}         a credential of the caller, in headers and env of servers; see mcpserver.FillUserTexts
//	${input:id}          an entry of inputs
//	${exec:COMMAND ARGS} what a program prints
//	${file:PATH}         what a file has
//	${weir:exe}          the path of the running program
//	${weir:port}         a free loopback port, one for each server
//	${workspaceFolder}   the folder of the project that the file is in
//	${userHome}          the user's home folder
//	$${                  the characters ${
//
// It also knows ${workspaceFolderBasename} and ${pathSeparator} (${/}) of VS Code and Cursor. It
// does not expand the text of a replacement again.
type expander struct {
	opts   Options
	dir    string   // of the file; "" if it is unknown
	inputs *[]Input // decoded before the first server is
	old    resolved // of the reading before; may be zero
	new    resolved

	hidden   hidden
	from     map[string][]string // the references in a text, by its path
	failures map[string]error    // of programs in this reading, by the keys of their answers

	server string // entry that is being read
	path   string // its path
	inside bool
}

func (e *expander) enter(server, path string) { e.server, e.path, e.inside = server, path, true }
func (e *expander) leave()                    { e.inside = false }
func (e *expander) active() bool              { return e.inside }

// text expands one text. With secret set, the result and every value in it are
// noted as secrets.
func (e *expander) text(text string, secret bool) (string, error) {
	out, err := strict.Variables{
		Lookup:   e.opts.LookupEnv,
		Other:    func(ref string) (string, bool, error) { return e.other(ref, secret) },
		Others:   ", ${secret:NAME}, ${user:NAME}, ${input:id}, ${exec:COMMAND}, ${file:PATH}, ${weir:exe} and ${weir:port}",
		Resolved: func(name, value string) { e.noteVariable(name, value, secret) },
	}.Expand(text)
	if err == nil && secret && !mcpserver.HasUserText(strict.Secret(out)) {
		e.hidden.note(out)
	}
	return out, err
}

func (e *expander) noteVariable(name, value string, secret bool) {
	switch {
	case tellingName(name):
		e.hidden.certain(value)
	case secret:
		e.hidden.note(value)
	}
}

// noteReferences remembers the references in the text at a path, each as far as it names its source:
// ${HOME} for ${HOME:-/root}.
func (e *expander) noteReferences(path, text string) {
	if found := strict.References(text); len(found) > 0 {
		e.from[path] = found
	}
}

// other returns the value of a reference that is no variable of the environment.
func (e *expander) other(ref string, secret bool) (value string, known bool, err error) {
	if id, ok := strings.CutPrefix(ref, "input:"); ok {
		value, password, err := e.input(id)
		switch {
		case err == nil && password:
			e.hidden.certain(value)
		case err == nil && secret:
			e.hidden.note(value)
		}
		return value, true, err
	}
	if name, ok := strings.CutPrefix(ref, "secret:"); ok {
		value, err := e.secret(name)
		return value, true, err
	}
	if name, ok := strings.CutPrefix(ref, "user:"); ok {
		value, err := e.user(name, secret)
		return value, true, err
	}
	if line, ok := strings.CutPrefix(ref, "exec:"); ok {
		value, err := e.exec(line)
		return value, true, ofReference(ref, err)
	}
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		value, err := e.file(path)
		return value, true, ofReference(ref, err)
	}
	if what, ok := strings.CutPrefix(ref, "weir:"); ok {
		value, err := e.own(what)
		return value, true, err
	}
	return e.editor(ref)
}

// ofReference names the reference in an error, which may be nil.
func ofReference(ref string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strict.Clip("${"+ref+"}"), err)
}

// sealingKey is the secret with which weir seals the sign-ins of a person.
const sealingKey = "WEIR_CREDENTIALS_KEY"

// secret returns the value of a secret that weir keeps.
func (e *expander) secret(name string) (string, error) {
	if !strict.VariableName(name) {
		return "", fmt.Errorf("%q names no secret: use letters, digits and _, with no digit first", strict.Clip("${secret:"+name+"}"))
	}
	if e.opts.LookupSecret == nil {
		return "", fmt.Errorf("the secret %s is not known here: there is no store of secrets", strict.Clip(name))
	}
	if name == sealingKey && e.inside {
		return "", fmt.Errorf("the secret %s seals all sign-ins of weir and goes to no server; store another one with: weir secret set NAME", name)
	}
	value, ok, err := e.opts.LookupSecret(name)
	if err != nil {
		return "", fmt.Errorf("the secret %s cannot be read: %w", strict.Clip(name), err)
	}
	if !ok {
		return "", fmt.Errorf("the secret %s is not stored; store it with: weir secret set %s", strict.Clip(name), strict.Clip(name))
	}
	e.hidden.certain(value)
	return value, nil
}

// editor returns a variable of VS Code and Cursor; known is false for any other.
func (e *expander) editor(ref string) (value string, known bool, err error) {
	switch ref {
	case "workspaceFolder", "workspaceFolderBasename":
		if e.dir == "" {
			return "", true, fmt.Errorf("${%s} is not known here: the configuration is in no folder", ref)
		}
		folder := workspaceOf(e.dir)
		if ref == "workspaceFolderBasename" {
			folder = filepath.Base(folder)
		}
		return folder, true, nil
	case "userHome":
		if e.opts.LookupEnv != nil {
			for _, name := range []string{"HOME", "USERPROFILE"} {
				if home, ok := e.opts.LookupEnv(name); ok && home != "" {
					return home, true, nil
				}
			}
		}
		return "", true, errors.New("${userHome} is not known: the environment variable HOME is not set")
	case "pathSeparator", "/":
		return string(filepath.Separator), true, nil
	}
	return "", false, nil
}

// own returns a value of weir's own.
func (e *expander) own(what string) (string, error) {
	switch what {
	case "exe":
		if e.opts.Executable == nil {
			return "", errors.New("${weir:exe} is not known here")
		}
		path, err := e.opts.Executable()
		if err != nil {
			return "", fmt.Errorf("${weir:exe} is not known: %w", err)
		}
		return path, nil
	case "port":
		port, err := e.port()
		if err != nil {
			return "", fmt.Errorf("no free port for ${weir:port}: %w", err)
		}
		return strconv.Itoa(port), nil
	}
	return "", fmt.Errorf("%q is not known; there are ${weir:exe} and ${weir:port}", strict.Clip("${weir:"+what+"}"))
}

// port returns the entry's port: its earlier one, or a new one that no other entry has.
func (e *expander) port() (int, error) {
	if port, ok := e.new.ports[e.server]; ok {
		return port, nil
	}
	port, ok := e.old.ports[e.server]
	for try := 0; !ok; try++ {
		if try == 20 {
			return 0, errors.New("the system keeps offering ports that other servers of this file have")
		}
		var err error
		if port, err = e.opts.freePort(); err != nil {
			return 0, err
		}
		ok = !holds(e.new.ports, port) && !holds(e.old.ports, port)
	}
	e.new.ports[e.server] = port
	return port, nil
}

func holds(ports map[string]int, port int) bool {
	for _, p := range ports {
		if p == port {
			return true
		}
	}
	return false
}

// input returns the value of an entry of inputs: its environment variable, else the answer of
// Options.Inputs, else its default.
func (e *expander) input(id string) (value string, password bool, err error) {
	i := slices.IndexFunc(*e.inputs, func(in Input) bool { return in.ID == id })
	if i < 0 {
		var ids []string
		for _, in := range *e.inputs {
			ids = append(ids, in.ID)
		}
		hint := fmt.Sprintf("add {id: %s} to inputs", strict.Clip(id))
		if near := strict.Nearest(id, ids); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return "", false, fmt.Errorf("there is no input %q; %s", strict.Clip(id), hint)
	}
	in := (*e.inputs)[i]
	env := InputVariable(id)
	value, ok := "", false
	if e.opts.LookupEnv != nil {
		value, ok = e.opts.LookupEnv(env)
	}
	if !ok {
		if value, ok, err = e.answer(id, in); err != nil {
			return "", in.Password, fmt.Errorf("input %q: %w", id, err)
		}
	}
	if !ok && in.Default != nil {
		value, ok = *in.Default, true
	}
	if !ok {
		other := fmt.Sprintf("give inputs[%d].default", i)
		if in.Password {
			other = "write ${secret:NAME} in its place and run weir secret set NAME"
		}
		return "", in.Password, fmt.Errorf("the input %q has no value; set the environment variable %s, or %s", id, env, other)
	}
	if in.Type == InputPick && len(in.Options) > 0 && !slices.Contains(in.Options, value) {
		delete(e.new.answers, id)
		return "", in.Password, fmt.Errorf("the value of input %q must be one of its options: %s", id, strict.OneOf(in.Options))
	}
	return value, in.Password, nil
}

// InputVariable returns the environment variable that answers an input.
func InputVariable(id string) string {
	return "WEIR_INPUT_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, id)
}

// tellingName reports whether a variable's name says that it holds a secret.
func tellingName(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"TOKEN", "SECRET", "PASSW", "PASSPHRASE", "APIKEY", "API_KEY", "_KEY", "CREDENTIAL", "_PAT", "AUTH"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// plainName reports whether the value of a header or variable with this name is not secret. To hide
// such a value everywhere would only garble messages.
func plainName(name string) bool {
	name = strings.ReplaceAll(strings.ToUpper(name), "-", "_")
	switch name {
	case "ACCEPT", "ACCEPT_LANGUAGE", "CONTENT_TYPE", "USER_AGENT", "MCP_PROTOCOL_VERSION",
		"PATH", "HOME", "LANG", "TZ", "PORT", "HOST", "DEBUG", "AUDIENCE", "PROMPT", "ACCESS_TYPE":
		return true
	}
	if tellingName(name) {
		return false
	}
	for _, end := range []string{"_PATH", "_DIR", "_HOME", "_ENV", "_LEVEL", "_PORT", "_HOST", "_REGION"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

func authScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "token", "apikey":
		return true
	}
	return false
}
