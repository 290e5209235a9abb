package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPolicyRecipes runs the recipes of docs/policy.md: each is a policy, and calls with what it must
// decide about them.
func TestPolicyRecipes(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipes, found := strings.Cut(string(text), "\n## Recipes\n")
	if !found {
		t.Fatal("there are no recipes")
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	ran := 0
	for _, recipe := range strings.Split(recipes, "\n### ")[1:] {
		name, _, _ := strings.Cut(recipe, "\n")
		blocks := block.FindAllStringSubmatch(recipe, -1)
		if len(blocks) != 2 {
			t.Errorf("%s has %d blocks, not a policy and its calls", name, len(blocks))
			continue
		}
		dir := t.TempDir()
		policy, rows := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "rows.yaml")
		for path, text := range map[string]string{policy: blocks[0][1], rows: blocks[1][1]} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := weir(t, "policy", "test", rows, "--config", policy); got.code != exitOK {
			t.Errorf("%s: %s%s", name, got.stdout, got.stderr)
		}
		ran++
	}
	if ran < 5 {
		t.Errorf("%d recipes ran", ran)
	}
}

func TestPolicyTestMisses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := write("weir.yaml", "policy:\n  default: deny\n  rules:\n    - {action: allow, namespace: docs, when: args.n < 4}\n    - {action: allow, groups: [sre]}\n")
	rows := write("rows.yaml", "- {as: ci, call: docs:read, args: {n: 3}, want: deny}\n- {as: ci, call: docs:read, want: deny, rule: 0}\n- {as: ci, call: docs:read, args: {n: 3}, want: allow, rule: 0}\n")
	weir(t, "policy", "test", rows, "--config", policy).want(t, exitTool, "rows.yaml:1", "wanted deny", "got allow by policy.rules[0]", "weir.yaml:4", "rows.yaml:2", "policy.default", "3 rows, 2 missed")
	got := weir(t, "policy", "test", rows, "--config", policy, "--json")
	for _, want := range []string{`"never_decided"`, `"policy.rules[1]"`, `"rows": 3`} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%s lacks %s", got.stdout, want)
		}
	}
	for name, text := range map[string]string{"an unknown key": "- {as: ci, calls: docs:read, want: deny}", "a verdict that is none": "- {as: ci, call: a:b, want: no}", "a rule that is none": "- {as: ci, call: a:b, want: deny, rule: first}", "no list": "as: ci", "nothing": ""} {
		if got := weir(t, "policy", "test", write("bad.yaml", text), "--config", policy); got.code != exitUsage {
			t.Errorf("%s: %d %s", name, got.code, got.stderr)
		}
	}
}

// TestPolicyWhy asks about a tool as the gateway lists it.
func TestPolicyWhy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(oneFake, "%FAKE%", fakeBin)+`
profiles:
  support: {include: ["fake:*"], groups: [support]}
  others: {exclude: ["fake:echo"]}
policy:
  default: deny
  rules:
    - {action: allow, tool: other}
    - {action: allow, tool: echo, scopes: ["fake:call"], when: 'args.text != "no"'}
    - {action: allow, profile: support, groups: [support]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	why := func(args ...string) finished {
		t.Helper()
		return weir(t, append([]string{"policy", "why", "--config", path, "--as", "corp:u1", "--call", "fake:echo"}, args...)...)
	}
	why("--scopes", "fake:call", "--args", `{"text":"yes"}`).want(t, exitOK, "allow, by policy.rules[1]", "weir.yaml:", "policy.rules[0] allow: is not about this tool", "decides; scopes: yes; when: yes")
	why("--scopes", "fake:call").want(t, exitOK, "deny, by policy.default", "when: failed (no such key: text)", "with some arguments the caller may call it")
	why("--args", `{"text":"yes"}`).want(t, exitOK, "deny, by policy.default", "scopes: no", "a token with these scopes may: fake:call")
	why("--profile", "support", "--groups", "support").want(t, exitOK, "allow, by policy.rules[2]", "groups: yes; profile: yes")
	why("--profile", "support").want(t, exitOK, "deny, by policy.default", "groups: no; profile: yes", "it does not exist there: the profile support is not for this caller")
	why("--profile", "others", "--groups", "support").want(t, exitOK, "profile: no", "it does not exist there: the profile others does not have it")
	why("--profile", "none").want(t, exitUsage, "there is no profile", "support, others")
	why("--args", `[]`).want(t, exitUsage, "--args must be a JSON object")
	got := decode[policyAnswer](t, why("--args", `{"text":"no"}`, "--json").want(t, exitOK).stdout)
	if got.Action != "deny" || got.Rule != "policy.default" || len(got.Tried) != 3 || got.Tried[1].Parts["when"] != "no" || len(got.Scopes) != 0 {
		t.Errorf("%+v", got)
	}
}
