package setup

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
)

// maxPaste bounds a text that is pasted, in bytes.
const maxPaste = 1 << 20

// errPaste is the error for a text without servers.
var errPaste = errors.New("there is no server in the text: paste a URL, a command line, or servers in the form of a client, as JSON, TOML or YAML")

// Paste plans to add the servers that a text describes: a URL, a command line, or servers in the form
// of a client. name is the name of a single server; "" takes the one that the text suggests.
func (m *Machine) Paste(pasted, name string) (*Plan, error) {
	s, err := m.pasted(strings.TrimSpace(pasted), name)
	if err != nil {
		return nil, err
	}
	if name != "" {
		if len(s.Servers) != 1 {
			return nil, fmt.Errorf("the text has %d servers with names of their own: leave the name out", len(s.Servers))
		}
		s.Servers[0].Name = name
	}
	if len(s.Servers) == 1 && len(s.Notes) == 0 {
		return m.Add(s.Servers[0])
	}
	return m.Import("add", []Source{s}, clients.Select{All: true})
}

// pasted reads a text.
func (m *Machine) pasted(pasted, name string) (Source, error) {
	switch {
	case pasted == "":
		return Source{}, errPaste
	case len(pasted) > maxPaste:
		return Source{}, fmt.Errorf("the text has %d bytes; at most %d are read", len(pasted), maxPaste)
	}
	if u, err := url.Parse(pasted); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && !strings.ContainsAny(pasted, " \n") {
		s := clients.Server{Client: "add", Name: hostName(u.Hostname()), URL: pasted, Transport: clients.HTTP}
		if strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/sse") {
			s.Transport = clients.SSE
		}
		return Source{Servers: []clients.Server{s}}, nil
	}
	if s, ok := m.document(pasted, name); ok {
		return s, nil
	}
	if strings.ContainsAny(pasted, "\n{") {
		return Source{}, errPaste
	}
	s, err := commandLine(pasted)
	return Source{Servers: []clients.Server{s}}, err
}

// document reads servers in the form of a client. A single entry, and entries without the object
// around them, count as well.
func (m *Machine) document(pasted, name string) (Source, bool) {
	type form struct {
		format splice.Format
		text   string
	}
	bare := strings.TrimSuffix(pasted, ",")
	named := name
	if named == "" {
		named = "server"
	}
	forms := []form{{splice.JSON, bare}, {splice.JSON, "{" + bare + "}"}, {splice.JSON, `{"mcpServers":{` + bare + `}}`}, {splice.JSON, `{"mcpServers":` + bare + `}`},
		{splice.TOML, pasted}, {splice.YAML, pasted}}
	if isSingle(bare) {
		forms = []form{{splice.JSON, `{"mcpServers":{"` + named + `":` + bare + `}}`}}
	}
	for _, f := range forms {
		for _, c := range formsOf("", f.format) {
			own := *c
			own.ID, own.Name, own.Format = "add", "the text", f.format
			servers, notes, err := clients.Servers(&own, []byte(f.text), m.Env)
			if err == nil && len(servers) > 0 {
				return Source{Servers: servers, Notes: notes}, true
			}
		}
	}
	return Source{}, false
}

// isSingle reports whether a JSON text is the entry of one server.
func isSingle(pasted string) bool {
	v, err := splice.Decode([]byte(pasted), splice.JSON)
	o, ok := v.(splice.Object)
	if err != nil || !ok {
		return false
	}
	_, command := o.Get("command").(string)
	_, address := o.Get("url").(string)
	return command || address
}

// hostName makes the name of a server of its host: api.github.com is github.
func hostName(host string) string {
	parts := strings.Split(host, ".")
	if len(parts) > 1 && strings.Trim(host, "0123456789.") != "" {
		return parts[len(parts)-2]
	}
	return strings.ReplaceAll(host, ".", "-")
}

// commandLine reads a command as a shell does, with variables before it.
func commandLine(line string) (clients.Server, error) {
	s := clients.Server{Client: "add", Transport: clients.Stdio}
	words, err := shellWords(line)
	if err != nil {
		return s, err
	}
	for len(words) > 0 {
		key, value, ok := strings.Cut(words[0], "=")
		if !ok || key == "" || strings.ContainsAny(key, "/\\.- ") {
			break
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[key], words = value, words[1:]
	}
	if len(words) == 0 {
		return s, errPaste
	}
	s.Command, s.Args = words[0], words[1:]
	s.Name = commandName(words)
	return s, nil
}

// commandName suggests a name: the package that a runner starts, else the program.
func commandName(words []string) string {
	program := strings.TrimSuffix(path.Base(strings.ReplaceAll(words[0], `\`, "/")), ".exe")
	switch program {
	case "npx", "bunx", "uvx", "pnpm", "yarn", "npm", "uv", "pipx":
		for _, word := range words[1:] {
			if strings.HasPrefix(word, "-") || word == "dlx" || word == "exec" || word == "run" || word == "x" {
				continue
			}
			program = path.Base(word)
			if at := strings.LastIndexByte(program, '@'); at > 0 {
				program = program[:at]
			}
			break
		}
	}
	for _, part := range []string{"mcp-server-", "server-", "mcp-"} {
		program = strings.TrimPrefix(program, part)
	}
	for _, part := range []string{"-mcp-server", "-mcp", "-server"} {
		program = strings.TrimSuffix(program, part)
	}
	return program
}

// shellWords splits a line at its spaces, except those in quotes. A backslash takes the next
// character as it is. Syntax that needs a shell, such as a pipe, is an error.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case strings.ContainsRune("|;&<>`", c):
			return nil, fmt.Errorf("the command has %q, which needs a shell: use sh -c '…'", string(c))
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote of the command does not end")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
