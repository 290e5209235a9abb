package agentserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// A skill is a Markdown file whose name ends with "skill.md". It becomes the
// tool skill_<name>:
//
//	---                                  front matter, optional: description, async,
//	command: ./count.sh                  timeoutMs, and the keys of a command
//	---
//	# Count words                        the title
//
//	## Parameters
//
//	- text (string, required): what to count
//
//	Everything else is the instructions, also a paragraph behind the list. {{text}}
//	is filled in.

const (
	maxSkills     = 500
	maxSkillBytes = 1 << 20
	maxSkillDepth = 4
	// maxDescription bounds, in characters, a description made of the text.
	maxDescription = 500
)

func isSkill(name string) bool { return strings.HasSuffix(strings.ToLower(name), "skill.md") }

// skillName makes the name of a tool of a file's: review-skill.md and
// review/SKILL.md are both skill_review.
func skillName(path string) string {
	name := filepath.Base(path)
	name = strings.TrimRight(name[:len(name)-len("skill.md")], "-_. ")
	if name == "" {
		name = filepath.Base(filepath.Dir(path))
	}
	name = regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "_")
	return "skill_" + strings.Trim(name, "_")
}

// skillFolders lists the folders below root.
func skillFolders(root string) (dirs []string) {
	_ = walkSkills(root, func(path string, d fs.DirEntry) {
		if d.IsDir() && path != root {
			dirs = append(dirs, path)
		}
	})
	return dirs
}

// walkSkills calls f for the skills of a folder, within bounds.
func walkSkills(root string, f func(path string, d fs.DirEntry)) error {
	n := 0
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > 20*maxSkills {
			return fmt.Errorf("%s holds too many files to be a folder of skills", root)
		}
		if d.IsDir() && path != root {
			rel, err := filepath.Rel(root, path)
			if err != nil || strings.Count(rel, string(filepath.Separator)) >= maxSkillDepth || strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" {
				return fs.SkipDir
			}
		}
		f(path, d)
		return nil
	})
}

// readSkills adds the skills of the configuration's folders to its tools.
func (c *Config) readSkills(o *ConfigOptions) error {
	var problems []strict.Problem
	for _, root := range c.Skills {
		var paths []string
		err := walkSkills(root, func(path string, d fs.DirEntry) {
			if d.Type().IsRegular() && isSkill(d.Name()) {
				paths = append(paths, path)
			}
		})
		switch {
		case err != nil:
			problems = append(problems, strict.Problem{File: root, Key: "skills", Message: fmt.Sprintf("the folder of skills cannot be read: %v", err)})
			continue
		case len(paths) > maxSkills:
			problems = append(problems, strict.Problem{File: root, Key: "skills", Message: fmt.Sprintf("there are %d skills; %d is the bound", len(paths), maxSkills)})
			continue
		}
		slices.Sort(paths)
		for _, path := range paths {
			data, err := place.ReadFile(path)
			if err == nil && len(data) > maxSkillBytes {
				err = fmt.Errorf("it has %d bytes; %d is the bound", len(data), maxSkillBytes)
			}
			if err != nil {
				problems = append(problems, strict.Problem{File: path, Message: err.Error()})
				continue
			}
			t, found := parseSkill(path, data, o)
			problems = append(problems, found...)
			c.Tools = append(c.Tools, t)
		}
	}
	if problems != nil {
		return &strict.Error{Problems: problems}
	}
	return nil
}

var (
	heading   = regexp.MustCompile(`^#{1,6}\s+(.+?)\s*#*\s*$`)
	parameter = regexp.MustCompile("^\\s*[-*+]\\s+[`*_]*([A-Za-z0-9_.-]+?)[`*_]*\\s*\\(([^)]*)\\)\\s*:?\\s*(.*)$")
	fence     = regexp.MustCompile("^\\s*(```|~~~)")
)

// parseSkill reads a skill file.
func parseSkill(path string, data []byte, o *ConfigOptions) (Tool, []strict.Problem) {
	dir := filepath.Dir(path)
	d := newDecoder(path, dir, o, true)
	t := Tool{Name: skillName(path), source: path}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	line := 1
	var keys frontMatter
	if front, rest, ok := cutFront(text); ok {
		line += strings.Count(front, "\n") + 2
		text = rest
		d.frontMatter(front, &keys)
		t.Description, t.Title, t.Async, t.Priority, t.Timeout = keys.Description, keys.Title, keys.Async, keys.Priority, time.Duration(keys.TimeoutMs)
	}
	var params []skillParam
	var instructions []string
	inParams, inFence, blank := false, false, false
	for i, l := range strings.Split(text, "\n") {
		if fence.MatchString(l) {
			inFence = !inFence
		}
		if m := heading.FindStringSubmatch(l); m != nil && !inFence {
			inParams = false
			if t.Title == "" && strings.HasPrefix(l, "# ") {
				t.Title = m[1]
				continue
			}
			if strings.HasPrefix(l, "## ") && strings.EqualFold(m[1], "parameters") {
				inParams = true
				continue
			}
		}
		if !inParams {
			instructions = append(instructions, l)
			continue
		}
		p, ok, err := parseParam(l)
		words, last := strings.TrimSpace(l), len(params)-1
		after := blank
		blank = words == ""
		if err == nil && !ok && !blank && last >= 0 {
			// Further indented lines belong to the parameter above. A paragraph of its own belongs
			// to the instructions.
			if l[0] == ' ' || l[0] == '\t' {
				params[last].description = strings.TrimSpace(params[last].description + " " + words)
				continue
			}
			if after && !strings.ContainsRune("-*+", rune(l[0])) {
				inParams = false
				instructions = append(instructions, l)
				continue
			}
		}
		at := &strict.Node{Line: line + i, Column: 1}
		switch {
		case err != nil:
			d.Fail(at, "parameters", "%v", err)
		case !ok && !blank:
			d.Fail(at, "parameters", "this is no parameter: %q; write - name (type, required): description", clip(words))
		case ok && slices.ContainsFunc(params, func(o skillParam) bool { return o.name == p.name }):
			d.Fail(at, "parameters", "the parameter %q stands twice", p.name)
		case ok:
			params = append(params, p)
		}
	}
	body := strings.TrimSpace(strings.Join(instructions, "\n"))
	if t.Title == "" {
		t.Title = strings.TrimPrefix(t.Name, "skill_")
	}
	if t.Description == "" {
		t.Description = firstParagraph(body)
	}
	if t.Description == "" {
		t.Description = t.Title
	}
	t.InputSchema = skillSchema(params)
	t.run = &skill{text: body, params: params}
	if keys.Command.at != nil {
		if run := d.command(&keys.fileEntry, fmt.Sprintf("skill %q", t.Name)); run != nil {
			t.run = run
		}
	}
	return t, d.Problems()
}

// cutFront cuts off front matter between two lines of ---.
func cutFront(text string) (front, rest string, ok bool) {
	body, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text, false
	}
	if strings.HasPrefix(body, "---\n") {
		return "", body[4:], true
	}
	front, rest, ok = strings.Cut(body, "\n---\n")
	return front, rest, ok
}

// frontMatter has the keys of a skill's front matter. Keys of other programs are ignored.
type frontMatter struct {
	fileEntry
	Async    bool `key:"async"`
	Priority int  `key:"priority"`
}

// frontMatter reads the text between the two lines of ---.
func (d *decoder) frontMatter(front string, keys *frontMatter) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte("\n"+front), &doc); err != nil { // the line of --- counts
		d.Fail(&strict.Node{Line: 1, Column: 1}, "", "the front matter is no YAML: %v", err)
		return
	}
	if len(doc.Content) == 0 || strict.IsNull(doc.Content[0]) {
		return
	}
	d.Decode(doc.Content[0], "", keys)
}

// skillParam is one line of ## Parameters.
type skillParam struct {
	name, kind, description string
	required                bool
}

func parseParam(line string) (p skillParam, ok bool, err error) {
	m := parameter.FindStringSubmatch(line)
	if m == nil {
		return p, false, nil
	}
	p = skillParam{name: m[1], kind: "string", description: m[3]}
	for word := range strings.SplitSeq(m[2], ",") {
		switch word = strings.ToLower(strings.TrimSpace(word)); {
		case word == "required":
			p.required = true
		case word == "optional" || word == "":
		case word == "int":
			p.kind = "integer"
		case word == "bool":
			p.kind = "boolean"
		case isTypeName(word):
			p.kind = word
		default:
			return p, false, fmt.Errorf("the parameter %q: %q is neither a type (%s) nor required or optional", p.name, clip(word), strings.Join(typeNames, ", "))
		}
	}
	return p, true, nil
}

func skillSchema(params []skillParam) json.RawMessage {
	w := rawjson.NewWriter(nil).Object().Key("type").String("object").Key("properties").Object()
	var required []string
	for _, p := range params {
		w.Key(p.name).Object()
		if p.kind != "any" {
			w.Key("type").String(p.kind)
		}
		w.Key("description").String(p.description).EndObject()
		if p.required {
			required = append(required, p.name)
		}
	}
	w.EndObject()
	if required != nil {
		w.Key("required").Strings(required)
	}
	return w.Key("additionalProperties").Bool(false).EndObject().Bytes()
}

func firstParagraph(body string) string {
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		if p := strings.TrimSpace(paragraph); p != "" && !strings.HasPrefix(p, "#") && !fence.MatchString(p) {
			p = strings.Join(strings.Fields(p), " ")
			if r := []rune(p); len(r) > maxDescription {
				p = string(r[:maxDescription]) + "…"
			}
			return p
		}
	}
	return ""
}

// skill returns its instructions, filled in.
type skill struct {
	text   string
	params []skillParam
}

// run implements runner. It appends parameters without a placeholder to the instructions.
func (k *skill) run(_ context.Context, c *Call) (output, error) {
	used := map[string]bool{}
	value := func(name string) (string, bool) {
		if !slices.ContainsFunc(k.params, func(p skillParam) bool { return p.name == name }) {
			return "", false
		}
		used[name] = true
		raw := rawjson.Get(c.input, name)
		if len(raw) > 0 && raw[0] == '"' {
			return rawjson.Text(raw), true
		}
		return string(raw), true
	}
	var out bytes.Buffer
	out.WriteString(fill(k.text, value))
	first := true
	for _, p := range k.params {
		if used[p.name] || rawjson.Get(c.input, p.name) == nil {
			continue
		}
		if first {
			out.WriteString("\n\n## Parameters\n")
			first = false
		}
		v, _ := value(p.name)
		fmt.Fprintf(&out, "\n- %s: %s", p.name, v)
	}
	return output{text: out.Bytes()}, nil
}
