package agentserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/text"
)

// The structs below hold a configuration file. Package strict reads it by their tags. If two keys
// mean the same, the second is the public implementation's.

type fileConfig struct {
	Schema       string       `key:"$schema"`
	Name         string       `key:"name"`
	Version      string       `key:"version"`
	Instructions string       `key:"instructions"`
	Port         int          `key:"port" min:"1"`
	Concurrency  int          `key:"concurrency" min:"1"`
	MaxParallel  int          `key:"maxParallelTasks" min:"1"`
	TaskLogTail  int          `key:"taskLogTailBytes" min:"1"`
	TimeoutMs    millis       `key:"timeoutMs"`
	Timeout      millis       `key:"timeout"` // as in the default configuration of agent servers
	MaxBody      strict.Bytes `key:"maxRequestSize" min:"1" max:"1048576GB"`
	Queue        struct {
		Max         int          `key:"max" min:"1"`
		Store       string       `key:"store"`
		Group       string       `key:"group"`
		Creds       string       `key:"creds"`
		CA          string       `key:"ca"`
		Cert        string       `key:"cert"`
		Key         string       `key:"key"`
		Results     int          `key:"results" min:"1"`
		ResultBytes strict.Bytes `key:"resultBytes" min:"1" max:"1048576GB"`
		Retain      string       `key:"retain"`
		LogTail     int          `key:"logTailBytes" min:"1"`
	} `key:"queue"`
	Skills    folders        `key:"skills"`
	Tools     []fileTool     `key:"tools"`
	Resources []fileResource `key:"resources"`
	Prompts   []filePrompt   `key:"prompts"`
}

// fileEntry has the keys that tools, resources and prompts share.
type fileEntry struct {
	strict.Place
	Name        string            `key:"name"`
	Title       string            `key:"title"`
	Description string            `key:"description"`
	TimeoutMs   millis            `key:"timeoutMs"`
	Command     commandWords      `key:"command"`
	Args        []string          `key:"args"`
	Cwd         string            `key:"cwd"`
	Env         map[string]string `key:"env"`
	MaxOutput   strict.Bytes      `key:"maxOutputBytes" min:"1" max:"1048576GB"`
	MaxMemory   strict.Bytes      `key:"maxMemoryBytes" min:"1" max:"1048576GB"`
}

type fileTool struct {
	fileEntry
	Async        bool         `key:"async"`
	Priority     int          `key:"priority"`
	Idempotent   bool         `key:"idempotent"`
	AsyncTimeout millis       `key:"timeout"`
	InputSchema  *strict.Node `key:"inputSchema"`
	Input        *strict.Node `key:"input"`
	OutputSchema *strict.Node `key:"outputSchema"`
	Annotations  *strict.Node `key:"annotations"`
}

type fileResource struct {
	fileEntry
	URI         string `key:"uri"`
	Template    string `key:"template"`
	URITemplate string `key:"uriTemplate"`
	MIMEType    string `key:"mimeType"`
}

type filePrompt struct {
	fileEntry
	Arguments []struct {
		strict.Place
		Name        string `key:"name"`
		Title       string `key:"title"`
		Description string `key:"description"`
		Required    bool   `key:"required"`
	} `key:"arguments"`
	Messages []struct {
		strict.Place
		Role    string       `key:"role"`
		Content *strict.Node `key:"content"`
	} `key:"messages"`
}

// millis is a duration. The file has its number of milliseconds.
type millis time.Duration

// DecodeStrict reads the number.
func (m *millis) DecodeStrict(d *strict.Decoder, n *strict.Node, path string) {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil || v < 1 || v > int64(365*24*time.Hour/time.Millisecond) {
		d.Wrong(n, path, "a number of milliseconds")
		return
	}
	*m = millis(time.Duration(v) * time.Millisecond)
}

// folders is one folder or a list of them.
type folders []string

// DecodeStrict reads either form.
func (f *folders) DecodeStrict(d *strict.Decoder, n *strict.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		*f = folders{n.Value}
		return
	}
	*f = textsOf(d, n, path)
}

// commandWords is a program. In the form of the public implementation, it is one list of a program
// and its arguments.
type commandWords struct {
	path string
	args []string
	at   *strict.Node // nil where the file has no command
}

// DecodeStrict reads either form.
func (c *commandWords) DecodeStrict(d *strict.Decoder, n *strict.Node, path string) {
	c.at = n
	if n.Kind != yaml.SequenceNode {
		c.path, _ = d.Text(n, path)
	} else if all := textsOf(d, n, path); len(all) > 0 {
		c.path, c.args = all[0], all[1:]
	}
}

func textsOf(d *strict.Decoder, n *strict.Node, path string) (all []string) {
	d.Each(n, path, strict.KindTexts.String(), func(item *strict.Node, here string) {
		if text, ok := d.Text(item, here); ok {
			all = append(all, text)
		}
	})
	return all
}

// decoder turns a decoded file into a Config, and reports its faults.
type decoder struct {
	*strict.Decoder
	file  string
	dir   string
	o     *ConfigOptions
	names map[string]int // "tool x" to the line where it stands
}

// newDecoder returns a decoder for one file. lenient allows further keys of other programs.
func newDecoder(file, dir string, o *ConfigOptions, lenient bool) *decoder {
	return &decoder{
		Decoder: strict.NewDecoder(strict.Options{File: file, Lenient: lenient, Quoted: true, Synonym: synonym}),
		file:    file, dir: dir, o: o, names: map[string]int{},
	}
}

// synonym returns the file's name for another program's key.
func synonym(key string) string {
	switch key {
	case "schema", "parameters":
		return "inputSchema"
	case "arguments":
		return "args"
	case "cmd", "exec":
		return "command"
	case "environment":
		return "env"
	case "dir", "workdir":
		return "cwd"
	}
	return ""
}

func (d *decoder) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}

// named checks the name of an entry, and that it stands once.
func (d *decoder) named(kind string, e *fileEntry) bool {
	if e.Name == "" {
		d.Fail(e.Node, e.Path, "%s needs a name", e.Path)
		return false
	}
	if kind != "resource" && !validName(e.Name) {
		d.Fail(e.Node, e.Path+".name", "%s %q: a name is 1 to 128 letters, digits, - _ or .", kind, clip(e.Name))
		return false
	}
	key := kind + " " + e.Name
	if line, ok := d.names[key]; ok {
		d.Fail(e.Node, e.Path+".name", "%s %q is there already, at line %d: rename one of them", kind, e.Name, line)
		return false
	}
	d.names[key] = e.Node.Line
	return true
}

var variable = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// expand replaces variables in the text of a key: ${VAR} and ${env:VAR} by the environment's value.
// ${VAR:-text} becomes text if that value is unset or empty.
func (d *decoder) expand(path, text string) string {
	return variable.ReplaceAllStringFunc(text, func(match string) string {
		parts := variable.FindStringSubmatch(match)
		name := parts[1]
		value, ok := d.o.lookup(name)
		if value == "" && parts[2] != "" {
			return parts[2][2:]
		}
		if !ok {
			d.Fail(d.At(path), path, "%s: the variable %s is not set in the agent's environment", path, name)
		}
		return value
	})
}

// json returns a value as JSON, keys in their order and numbers as they stand.
func (d *decoder) json(n *strict.Node, path string) json.RawMessage {
	out, err := strict.JSON(n)
	if err != nil {
		d.Fail(n, path, "%s: %v", path, err)
	}
	d.warnOfCommas(n, path)
	return out
}

// warnOfCommas warns of keys without a value in { }. A text there ends at its first comma, and YAML
// reads the rest of it as such a key.
func (d *decoder) warnOfCommas(n *strict.Node, path string) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && i%2 == 1 && child.Value == "" && strict.IsNull(child) {
			key := n.Content[i-1]
			d.Warn(key, path, "%s has the key %q without a value: if it is the rest of a text with a comma, quote the text", path, clip(key.Value))
		}
		d.warnOfCommas(child, path)
	}
}

// clip bounds a text that a message repeats.
func clip(s string) string { return text.Fit(s, 101) }

// command makes the command of an entry, or says why it cannot be one.
func (d *decoder) command(e *fileEntry, who string) runner {
	path, at := e.Command.path, e.Command.at
	if path == "" {
		if at == nil || !d.Bad(strict.Join(e.Path, "command")) {
			d.Fail(e.Node, e.Path, "%s needs a command: the program to start, its arguments in args", who)
		}
		return nil
	}
	cmd := &command{path: path, args: append(e.Command.args, e.Args...), maxOutput: int64(e.MaxOutput), maxMemory: int64(e.MaxMemory), dir: d.dir, home: d.dir}
	switch cwd := d.expand(strict.Join(e.Path, "cwd"), e.Cwd); {
	case cwd == "workspace":
		if d.o.Workspace != "" {
			cmd.dir = d.o.Workspace
		}
	case cwd != "":
		cmd.dir = d.absolute(cwd)
	}
	env := map[string]string{}
	for key, value := range e.Env {
		here := strict.Join(strict.Join(e.Path, "env"), key)
		if key == "" || strings.ContainsAny(key, "=\x00") {
			d.Fail(d.At(here), here, "%q cannot be a variable: its name must not be empty or hold '='", clip(key))
			continue
		}
		env[key] = d.expand(here, value)
	}
	cmd.env = cleanEnv(d.o, env)
	cmd.secrets = secretsOf(cmd.args, env)
	if strings.ContainsRune(path, filepath.Separator) {
		cmd.path = d.absolute(path)
	}
	if _, err := cmd.find(); err != nil && strings.ContainsAny(path, " \t") {
		program, rest := splitWords(path)
		d.Fail(at, strict.Join(e.Path, "command"), "%s: the command %q holds arguments; write command: %s, args: %s", who, clip(path), quoteWord(program), quoteWords(append(rest, cmd.args...)))
		return nil
	}
	if e.MaxMemory > 0 && !child.CanLimitMemory {
		d.Fail(at, strict.Join(e.Path, "maxMemoryBytes"), "%s: memory cannot be limited on this system; remove maxMemoryBytes", who)
		return nil
	}
	return cmd
}

// splitWords splits a command line as a shell would, without its expansions.
func splitWords(s string) (program string, rest []string) {
	var words []string
	var word []rune
	quote, open := rune(0), false
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if open {
				words = append(words, string(word))
			}
			word, open = nil, false
		default:
			word, open = append(word, r), true
		}
	}
	if open {
		words = append(words, string(word))
	}
	if len(words) == 0 {
		return "", nil
	}
	return words[0], words[1:]
}

func quoteWord(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always can be
	return strings.TrimSpace(b.String())
}

func quoteWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteWord(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// source is the place of an entry, for messages.
func (d *decoder) source(e *fileEntry) string { return fmt.Sprintf("%s:%d", d.file, e.Node.Line) }
