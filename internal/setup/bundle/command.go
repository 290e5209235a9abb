package bundle

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/text/lazy"
)

// Place is the machine and the user that a server would run for.
type Place struct {
	OS   string // as runtime.GOOS names it
	Home string // the user's home folder

	// Folders are the user's Desktop, Documents and Downloads by these names; a missing one is below
	// Home.
	Folders map[string]string
}

// Question is a setting of the bundle that a person has to give.
type Question struct {
	ID          string // the key of user_config
	Secret      string // the name under which the answer is stored as a secret; "" for an answer that is not secret
	Title       string
	Description string
	Type        string // string, number, boolean, directory or file
	Required    bool
	Multiple    bool
	Default     []string
}

// Command starts the server of a bundle. The text ${ of manifests and answers is escaped in it.
type Command struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// Questions returns the settings of the bundle in the order of its manifest.
func (m *Manifest) Questions(p Place) []Question {
	var out []Question
	for _, s := range m.settings {
		q := Question{ID: s.name, Title: s.Title, Description: s.Description, Type: s.Type, Required: s.Required, Multiple: s.Multiple}
		if s.Sensitive {
			q.Secret = secretName(m.Name + "_" + s.name)
		} else {
			for _, text := range texts(s.Default) {
				q.Default = append(q.Default, p.fill(text, ""))
			}
		}
		out = append(out, q)
	}
	return out
}

// texts returns a default as texts: of a list, each element.
func texts(raw json.RawMessage) []string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var out []string
	for _, item := range list {
		var text string
		switch {
		case len(item) == 0 || string(item) == "null" || item[0] == '{' || item[0] == '[':
			continue
		case json.Unmarshal(item, &text) != nil:
			text = string(item)
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

// Command returns how the server starts from the folder dir with a person's answers by question. It
// is an error if a required answer is missing, or if the bundle is not for this system.
func (m *Manifest) Command(dir string, p Place, answers map[string][]string) (Command, error) {
	if on := m.Compatibility.Platforms; len(on) > 0 && !slices.Contains(on, p.platform()) {
		return Command{}, fmt.Errorf("%s is for %s, and this is %s", m.Name, strings.Join(on, ", "), p.platform())
	}
	f := filler{place: p, dir: dir, values: map[string][]part{}}
	for _, q := range m.Questions(p) {
		given := slices.DeleteFunc(slices.Clone(answers[q.ID]), func(s string) bool { return s == "" })
		if len(given) == 0 {
			given = q.Default
		}
		if !q.Multiple && len(given) > 1 {
			return Command{}, fmt.Errorf("%s of %s has one value, not %d", q.ID, m.Name, len(given))
		}
		if len(given) == 0 && q.Required {
			return Command{}, fmt.Errorf("%s needs a value for %s", m.Name, q.ID)
		}
		for _, text := range given {
			if err := q.Check(text); err != nil {
				return Command{}, fmt.Errorf("%s of %s: %w", q.ID, m.Name, err)
			}
			if q.Secret != "" {
				f.values[q.ID] = []part{{secret: q.Secret}}
				break
			}
			f.values[q.ID] = append(f.values[q.ID], part{text: text})
		}
	}
	l := m.launchOn(p.platform())
	c := Command{Command: f.text(l.Command)}
	for _, arg := range l.Args {
		c.Args = append(c.Args, f.words(arg)...)
	}
	for name, value := range l.Env {
		if words := f.words(value); len(words) > 0 {
			if c.Env == nil {
				c.Env = map[string]string{}
			}
			c.Env[name] = strings.Join(words, ",")
		}
	}
	return c, nil
}

// Check returns the fault of an answer, without the answer's text.
func (q Question) Check(text string) error {
	switch q.Type {
	case "number":
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("a number is wanted")
		}
	case "boolean":
		if text != "true" && text != "false" {
			return fmt.Errorf("true or false is wanted")
		}
	}
	return nil
}

func (p Place) platform() string {
	if p.OS == "windows" {
		return "win32"
	}
	return p.OS
}

// variables matches the ${…} of manifests.
var variables = lazy.Pattern(`\$\{(__dirname|HOME|DESKTOP|DOCUMENTS|DOWNLOADS|/|pathSeparator|user_config\.[A-Za-z0-9_.-]+)\}`)

// known returns the value of a variable other than a setting.
func (p Place) known(name, dir string) string {
	switch name {
	case "__dirname":
		return dir
	case "HOME":
		return p.Home
	case "/", "pathSeparator":
		if p.OS == "windows" {
			return `\`
		}
		return "/"
	}
	folder := name[:1] + strings.ToLower(name[1:])
	if at := p.Folders[folder]; at != "" {
		return at
	}
	return filepath.Join(p.Home, folder)
}

// fill replaces the variables of a default. Settings do not occur there.
func (p Place) fill(text, dir string) string {
	return variables().ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[2 : len(ref)-1]
		if name == "__dirname" || strings.HasPrefix(name, "user_config.") {
			return ref
		}
		return p.known(name, dir)
	})
}

// part is a piece of a text: as it stands, or a secret by its name.
type part struct{ text, secret string }

// join returns the text of parts. Neighbours are escaped together, because $ and { may meet.
func join(parts ...part) string {
	var out, plain strings.Builder
	escape := func() string {
		defer plain.Reset()
		return strings.ReplaceAll(plain.String(), "${", "$${")
	}
	for _, p := range parts {
		plain.WriteString(p.text)
		if p.secret != "" {
			out.WriteString(escape() + "${secret:" + p.secret + "}")
		}
	}
	return out.String() + escape()
}

// filler replaces variables.
type filler struct {
	place  Place
	dir    string
	values map[string][]part // of settings; none where a person gave none
}

// words returns the words of one argument. If the argument is only one setting, each value of it is
// a word; without a value there is none.
func (f filler) words(arg string) []string {
	at := variables().FindStringSubmatch(arg)
	if at == nil || at[0] != arg || !strings.HasPrefix(at[1], "user_config.") {
		return []string{f.text(arg)}
	}
	var out []string
	for _, value := range f.values[strings.TrimPrefix(at[1], "user_config.")] {
		out = append(out, join(value))
	}
	return out
}

// text returns a text with its variables replaced. Several values of a setting are separated by commas.
func (f filler) text(text string) string {
	var parts []part
	last := 0
	for _, at := range variables().FindAllStringSubmatchIndex(text, -1) {
		parts = append(parts, part{text: text[last:at[0]]})
		last = at[1]
		name := text[at[2]:at[3]]
		setting, is := strings.CutPrefix(name, "user_config.")
		if !is {
			parts = append(parts, part{text: f.place.known(name, f.dir)})
			continue
		}
		for i, value := range f.values[setting] {
			if i > 0 {
				parts = append(parts, part{text: ","})
			}
			parts = append(parts, value)
		}
	}
	return join(append(parts, part{text: text[last:]})...)
}

var noLetter = lazy.Pattern(`[^A-Z0-9]+`)

// secretName returns a text as the name of a secret.
func secretName(text string) string {
	name := strings.Trim(noLetter().ReplaceAllString(strings.ToUpper(text), "_"), "_")
	if name == "" || name[0] <= '9' {
		name = "S_" + name
	}
	return name[:min(len(name), 100)]
}
