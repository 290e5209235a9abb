package cli

import "testing"

// TestRunAs: weir run --as runs a program for a caller of the configuration: its groups count in the policy, and a
// profile is open to whom it is for.
func TestRunAs(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", oneFake+`
auth:
  tokens:
    - {name: ann, sha256: aaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccdddd, groups: [staff]}
    - {name: bot, sha256: baaabbbbccccddddaaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccdddd}
    - {name: old, sha256: caaabbbbccccddddaaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccdddd, expires: 2020-01-01}
    - {name: one, sha256: daaabbbbccccddddaaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccdddd, agents: ["x-*"]}
policy: {rules: [{action: allow, groups: [staff]}, {action: deny, principals: [bot], reason: not for bots}]}
profiles: {small: {include: ["fake:echo"], groups: [staff]}}
`)
	program := writeConfig(t, "echo.js", `return (await tools.fake.echo({text: "hello"}))`)
	run := func(args ...string) finished {
		t.Helper()
		return weir(t, append([]string{"run", program, "--config", path}, args...)...)
	}
	run("--as", "ann").want(t, exitOK, "hello")
	run("--as", "bot").want(t, exitRefused, "not for bots", "PROGRAM_FAILED")
	run("--as", "eve").want(t, exitUsage, "auth.tokens has no token of this name; it has: ann, bot, old, one")
	run("--as", "old").want(t, exitUsage, "has expired")
	run("--as", "one").want(t, exitUsage, "opens single agents")
	run("--as", "ann", "--profile", "small").want(t, exitOK, "hello")
	if f := run("--as", "bot", "--profile", "small"); f.code == exitOK {
		t.Errorf("a profile that is not open: %+v", f)
	}
	weir(t, "run", program, "--as", "ann", "--url", "http://127.0.0.1:1/mcp").want(t, exitUsage, "set WEIR_TOKEN")
	open := writeConfig(t, "weir.yaml", oneFake)
	weir(t, "run", program, "--as", "ann", "--config", open).want(t, exitUsage, "tells no callers apart")
}
