package agentserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/agents.md shows works: the tool made of a script, the skill, and
// the programs.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(string(doc), -1) {
		blocks[m[1]] = append(blocks[m[1]], m[2])
	}
	if len(blocks["yaml"]) != 3 || len(blocks["sh"]) != 3 || len(blocks["go"]) != 2 || len(blocks["md"]) != 1 {
		t.Fatalf("the document has other blocks than before: %d kinds", len(blocks))
	}
	a := newAgent(t, "name: demo", Options{})
	a.write("word-count.sh", blocks["sh"][0])
	if err := os.Chmod(filepath.Join(a.dir, "word-count.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.write("skills/review-skill.md", blocks["md"][0])
	a.write("agent.yaml", blocks["yaml"][0]+"skills: skills\n")
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if r := a.call("word_count", `{"text":"one two three"}`); string(r.get("result", "structuredContent", "words")) != "3" {
		t.Errorf("%s", r.body)
	}
	if r := a.call("skill_review", `{"path":"a.go"}`); !strings.HasPrefix(r.content(), "Read a.go and say") {
		t.Errorf("%s", r.body)
	}
	for _, program := range blocks["go"] {
		file := writeTemp(t, "main.go", program)
		build := exec.Command("go", "build", "-o", os.DevNull, file)
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
