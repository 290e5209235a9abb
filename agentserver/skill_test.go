package agentserver

import (
	"strings"
	"testing"
)

func TestSkillNames(t *testing.T) {
	for path, want := range map[string]string{
		"/s/review-skill.md": "skill_review", "/s/Code Review.skill.md": "skill_code_review", "/s/triage/SKILL.md": "skill_triage",
		"/s/deep_dive_skill.md": "skill_deep_dive", "/s/über-skill.md": "skill_ber",
	} {
		if got := skillName(path); got != want || !isSkill(path) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if isSkill("skills.md") || isSkill("skill.txt") {
		t.Error("what is no skill counts as one")
	}
}

const reviewSkill = `# Review a change

Look at what changed in {{path}} and say what is wrong.

## Parameters

- path (string, required): what to look at
- ` + "`depth`" + ` (integer): how deep
- strict (boolean, optional)

## Steps

1. Read ${path}.
`

// Skills become tools: one that returns its instructions filled in, one that
// runs a command, and their mistakes have lines.
func TestSkills(t *testing.T) {
	a := newAgent(t, "name: demo", Options{})
	a.write("agent.yaml", "name: demo\nskills: skills\ntools: [{name: own, description: x, command: 'true'}]")
	a.write("skills/review-skill.md", reviewSkill)
	a.write("skills/count/SKILL.md", "---\ndescription: Counts\nlicense: MIT\ncommand: sh\nargs: [-c, 'cat; echo counting >&2']\nasync: false\n---\n# Count\n\n## Parameters\n- text (string, required): what to count\n")
	a.write("skills/notes.md", "# No skill")
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	list := string(a.post("tools/list", "{}").body)
	for _, want := range []string{
		`"name":"skill_review","title":"Review a change","description":"Look at what changed in {{path}} and say what is wrong."`,
		`"properties":{"path":{"type":"string","description":"what to look at"},"depth":{"type":"integer","description":"how deep"},"strict":{"type":"boolean","description":""}},"required":["path"],"additionalProperties":false`,
		`"name":"skill_count","title":"Count","description":"Counts"`,
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s: %s", want, list)
		}
	}
	r := a.call("skill_review", `{"path":"a.go","depth":2}`)
	want := "Look at what changed in a.go and say what is wrong.\n\n## Steps\n\n1. Read a.go.\n\n## Parameters\n\n- depth: 2"
	if r.content() != want {
		t.Errorf("got %q", r.content())
	}
	if r := a.call("skill_review", `{"depth":2}`); r.code() != -32602 {
		t.Errorf("without path: %s", r.body)
	}
	if r := a.call("skill_count", `{"text":"x"}`); string(r.get("result", "structuredContent", "input")) != `{"text":"x"}` {
		t.Errorf("%s", r.body)
	}

	for name, c := range map[string]struct{ file, text, want string }{
		"type":         {"bad-skill.md", "# Bad\n\n## Parameters\n- a (strnig): x\n", `bad-skill.md:4:1: the parameter "a": "strnig" is neither a type`},
		"no parameter": {"bad-skill.md", "# Bad\n\n## Parameters\na string\n", "bad-skill.md:4:1: this is no parameter"},
		"front matter": {"bad-skill.md", "---\ncommand: [\n---\n# Bad\n", "front matter is no YAML"},
		"command":      {"bad-skill.md", "---\ncommand: sh -c x\n---\n# Bad\n", "holds arguments"},
		"same name":    {"own/review-skill.md", "# Again\n", `two tools are called "skill_review"`},
	} {
		a.write("skills/"+c.file, c.text)
		if err := a.Reload(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		a.write("skills/"+c.file, "# Fine"+strings.Repeat("!", len(c.text)))
		if c.file == "own/review-skill.md" {
			a.write("skills/own/review-skill.md", "")
		}
	}
}

// What stands behind the parameters belongs to the last one where it is indented,
// and to the instructions where it is a paragraph.
func TestTextAfterParameters(t *testing.T) {
	text := "# Look\n\nFirst {{path}}.\n\n## Parameters\n\n- path (string, required): what to\n  look at\n\n- depth (integer)\n\nThen think.\nTwice.\n"
	tool, problems := parseSkill("/s/look-skill.md", []byte(text), &ConfigOptions{})
	if problems != nil {
		t.Fatalf("%v", problems)
	}
	if k := tool.run.(*skill); k.text != "First {{path}}.\n\nThen think.\nTwice." || len(k.params) != 2 || k.params[0].description != "what to look at" {
		t.Errorf("%+v", k)
	}
	for _, bad := range []string{"- path (string): x\nmore\n", "- path (string): x\n\n* no type\n", "path (string)\n"} {
		if _, problems := parseSkill("/s/bad-skill.md", []byte("# Bad\n\n## Parameters\n"+bad), &ConfigOptions{}); problems == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}

func TestSkillFolderMissing(t *testing.T) {
	if _, err := LoadConfig(writeTemp(t, "agent.yaml", "skills: [none]"), ConfigOptions{}); err == nil || !strings.Contains(err.Error(), "folder of skills cannot be read") {
		t.Errorf("got %v", err)
	}
}
