package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMistakes: what a person does wrong at first is answered with the thing, its
// owner and what to do, and with the code of its kind.
func TestMistakes(t *testing.T) {
	t.Parallel()
	taken := serve(t, "mcpServers: {}\n")
	address := strings.TrimPrefix(taken.base, "http://")
	foreign := writeConfig(t, "foreign.yaml", "mcpServers: {}\nlisten: 192.0.2.1:0\nauth: {tokens: [{name: a, sha256: "+strings.Repeat("0", 64)+"}]}\n")
	none := writeConfig(t, "none.yaml", "mcpServers: {}\n")
	agent := writeConfig(t, "agent.yaml", "name: a\ntools: [{name: x, command: /bin/true}]\n")
	agentJSON := writeConfig(t, "mcp-config.json", `{"name":"a","tools":[{"name":"x","command":"/bin/true"}]}`)
	strange := writeConfig(t, "strange.yaml", "mcpServers: {a: {command: a}}\npolicy: {rules: [{action: deny, namespace: a}, {action: deny, namespace: b}]}\nrate_limits: {per_tool: {\"c:d@1\": {max_calls_per_session: 1}}}\n")
	folder := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"unknown command":       {[]string{"serach"}, exitUsage, []string{`unknown command "serach"`, "search", "Run 'weir --help'"}},
		"unknown help topic":    {[]string{"help", "nope"}, exitUsage, []string{`unknown command "nope"`}},
		"unknown flag":          {[]string{"search", "x", "--jsn"}, exitUsage, []string{"--jsn", "Usage: weir search QUERY", "Run 'weir search --help'"}},
		"missing argument":      {[]string{"search"}, exitUsage, []string{"an argument is missing", "weir search QUERY"}},
		"argument too many":     {[]string{"ls", "notes"}, exitUsage, []string{`"notes" is one argument too many`}},
		"url and config":        {[]string{"ls", "--url", taken.url, "--config", none}, exitUsage, []string{"--url", "--config", "keep one of them"}},
		"nothing there":         {[]string{"ls", "--url", "http://127.0.0.1:1/mcp"}, exitUnavailable, []string{"http://127.0.0.1:1/mcp", "refused the connection", "weir serve"}},
		"password in a URL":     {[]string{"ls", "--url", "http://me:sesame@127.0.0.1:1/mcp"}, exitUnavailable, []string{"http://me:xxxxx@127.0.0.1:1/mcp"}},
		"serve: port taken":     {[]string{"serve", "--config", none, "--listen", address}, exitUsage, []string{address, "perhaps another weir", "--listen"}},
		"hub: port taken":       {[]string{"hub", "--listen", address}, exitUsage, []string{address, "perhaps another weir", "--listen"}},
		"check: namespaces":     {[]string{"config", "check", strange, "--json"}, exitOK, []string{`policy.rules[1].namespace: no server`, `rate_limits.per_tool.c:d@1: no server`}},
		"check: of an agent":    {[]string{"config", "check", agent}, exitUsage, []string{"an agent server", "weir agent --config " + agent}},
		"check: agent's JSON":   {[]string{"config", "check", agentJSON, "--json"}, exitUsage, []string{"weir agent --config " + agentJSON}},
		"serve: of an agent":    {[]string{"serve", "--config", agent}, exitUsage, []string{"weir agent --config " + agent}},
		"agent: port taken":     {[]string{"agent", "--config", agent, "--listen", address}, exitUsage, []string{address, "perhaps another weir", "--port"}},
		"foreign address":       {[]string{"serve", "--config", foreign}, exitUsage, []string{"192.0.2.1:0", "no address of this machine"}},
		"agent: no such file":   {[]string{"agent", "--config", "nope.yaml"}, exitUsage, []string{"nope.yaml: there is no such file"}},
		"agent: store":          {[]string{"agent", "--config", agent, "--port", "0", "--store", "redis"}, exitUsage, []string{`"redis"`, "file:FOLDER"}},
		"agent: negative port":  {[]string{"agent", "--config", agent, "--port", "-5"}, exitUsage, []string{"--port -5", "from 0 to 65535"}},
		"table: no such folder": {[]string{"table", "x", "--url", taken.url, "-o", filepath.Join(folder, "no", "x.csv")}, exitUsage, []string{"the folder " + filepath.Join(folder, "no"), "no such file or directory"}},
		"table: a folder":       {[]string{"table", "x", "--url", taken.url, "-o", folder}, exitUsage, []string{folder, "it is a folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			weir(t, c.args...).want(t, c.code, c.want...)
		})
	}
}

// TestRefusalsAsJSON: with --json, what the gateway refuses is JSON on standard
// output, in every command that asks it something.
func TestRefusalsAsJSON(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\n")
	for _, c := range []struct {
		args  []string
		code  int
		error string
	}{
		{[]string{"browse", "nope"}, exitUsage, "PATH_INVALID"},
		{[]string{"browse", "/nope"}, exitRefused, "PATH_NOT_FOUND"},
		{[]string{"view", "art_nope"}, exitRefused, "VIEW_FAILED"},
		{[]string{"call", "a:b#01234567"}, exitRefused, "HYDRATE_FAILED"},
	} {
		f := weir(t, append(c.args, "--json", "--url", s.url)...).want(t, c.code)
		if got := decode[struct{ Error, Message string }](t, f.stdout); got.Error != c.error || !strings.Contains(f.stderr, got.Message) {
			t.Errorf("weir %q: %q on standard output, want %s; and on standard error %q", c.args, f.stdout, c.error, f.stderr)
		}
	}
}

// TestParametersAreTold: a person whose arguments do not fit is told what the tool takes.
func TestParametersAreTold(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"required":["path"],"properties":{"lines":{"type":["integer","null"]},"path":{"type":"string","description":"file\n to read"},
		"mode":{"enum":["fast","slow"]},"tags":{"type":"array","items":{"type":"string"}},"any":true}}`)
	want := `It takes:
  path   string, required  file to read
  any
  lines  integer or null
  mode   "fast", "slow"
  tags   array of strings`
	if got := parametersText(schema); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, none := range []string{``, `{}`, `[]`, `{"properties":{}}`, `{"properties":7}`} {
		if got := parametersText(json.RawMessage(none)); got != "" {
			t.Errorf("of %q: %q", none, got)
		}
	}
	var many strings.Builder
	for i := range maxParameters + 2 {
		many.WriteString(`,"p` + strings.Repeat("x", i) + `":{}`)
	}
	if got := parametersText(json.RawMessage(`{"properties":{` + many.String()[1:] + `}}`)); !strings.HasSuffix(got, "… and 2 more: weir call … -o json has the schema") {
		t.Errorf("a large schema ends with %q", got[len(got)-100:])
	}
}

// TestIDsInTextsAreTrue: the ids of the quickstart's tools in help texts and
// documents are those that its servers have.
func TestIDsInTextsAreTrue(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	f := weir(t, "@../..", "ls", "--tools", "--json", "--config", "examples/quickstart/weir.yaml").want(t, exitOK)
	for _, c := range decode[[]card](t, f.stdout) {
		there[c.ID] = true
	}
	texts := map[string]string{}
	a := &process{lookupEnv: os.LookupEnv, version: "devel"}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		texts[c.CommandPath()] = c.Long + c.Example
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(a))
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../examples/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(data)
		}
	}
	id := regexp.MustCompile(`\b(notes|inventory|weather|chart):[a-z_]+#[0-9a-f]{8}\b`)
	found := 0
	for where, text := range texts {
		for _, one := range id.FindAllString(text, -1) {
			if found++; !there[one] {
				t.Errorf("%s names %s, which is not there", where, one)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d ids were found", found)
	}
}

// TestRequiredServersAreWaitedForAloud: a weir that waits says for whom.
func TestRequiredServersAreWaitedForAloud(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", "mcpServers:\n  mute: {command: sleep, args: [\"60\"], required: true}\nlisten: 127.0.0.1:0\n")
	cmd := exec.CommandContext(t.Context(), weirBin, "serve", "--config", path)
	cmd.Env, cmd.Dir = environment(), t.TempDir()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, said := bufio.NewScanner(stderr), false
	for !said && lines.Scan() {
		said = strings.Contains(lines.Text(), "waiting for servers that are required") && strings.Contains(lines.Text(), "mute")
	}
	if !said {
		t.Error("nothing was said of the server")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stderr) // so that it can write to its end
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended before it began: %v", err)
	}
}

// TestAgentTellsNoPassword: neither the log of an agent nor what it prints has the
// password of its router's URL.
func TestAgentTellsNoPassword(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "agent.yaml", "name: a\ntools: [{name: x, command: /bin/true}]\n")
	cmd := exec.CommandContext(t.Context(), weirBin, "agent", "--config", config, "--port", "0", "--router", "http://me:sesame-open@127.0.0.1:1")
	out, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment(), t.TempDir(), to, to
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = to.Close() // it is the agent's now
	var all strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(all.String(), "not registered") && strings.Contains(all.String(), "Ctrl-C") {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if text := all.String(); !strings.Contains(text, "not registered") || strings.Contains(text, "sesame-open") {
		t.Errorf("the agent said\n%s", text)
	}
}
