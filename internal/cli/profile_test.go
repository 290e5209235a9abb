package cli

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestProfileOverStdio: weir serve --stdio and weir attach reach a profile by its name, and neither
// serves one that does not exist for their caller.
func TestProfileOverStdio(t *testing.T) {
	t.Parallel()
	const config = "listen: 127.0.0.1:0\nprofiles: {one: {include: [\"fake:echo\"], mode: plain}, closed: {groups: [sre]}}\n" + oneFake
	state := t.TempDir()
	endGateway(t, state)
	path := writeConfig(t, "weir.yaml", config)
	served, _ := stdioSession(t, config, "--profile", "one")
	for name, session := range map[string]*sdk.ClientSession{"serve --stdio": served, "attach": attachSDK(t, state, path, "--profile", "one")} {
		echoOver(t, session)
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if strings.HasPrefix(tool.Name, "fake__") && tool.Name != "fake__echo" {
				t.Errorf("%s lists %s", name, tool.Name)
			}
		}
	}
	warnings := regexp.MustCompile(`(?m)^warning: .*\n`) // of the configuration, for its owner
	refusal := func(profile string, args ...string) string {
		cmd := exec.Command(weirBin, append(args, "--config", path, "--profile", profile)...)
		cmd.Env = environment("XDG_STATE_HOME=" + state)
		cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
		out, _ := cmd.CombinedOutput()
		text := warnings.ReplaceAllString(string(out), "")
		return strings.ReplaceAll(text, profile, "NAME")
	}
	for _, args := range [][]string{{"serve", "--stdio"}, {"attach"}} {
		closed, unknown := refusal("closed", args...), refusal("absent", args...)
		if closed != unknown || !strings.Contains(closed, "NAME") || strings.Contains(closed, `"result"`) {
			t.Errorf("%v: a closed profile: %s\nan unknown one: %s", args, closed, unknown)
		}
	}
	if got := refusal("one", "serve"); !strings.Contains(got, "--profile is for --stdio") {
		t.Errorf("serve over HTTP: %s", got)
	}
}

// TestConnectProfile: a client's file gets the profile that its person may open, and keeps it.
func TestConnectProfile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	path := writeConfig(t, "weir.yaml", "profiles: {one: {include: [\"fake:echo\"]}, closed: {principals: [ann]}}\n"+oneFake)
	connect := func(more ...string) finished {
		return h.weir(t, append([]string{"connect", "cursor", "--yes", "--keep", "--config", path}, more...)...)
	}
	entry := func() string { return h.files(t)[".cursor/mcp.json"] }
	connect("--profile", "absent").want(t, exitUsage, "no profile", "absent")
	connect("--profile", "closed").want(t, exitUsage, "no profile", "closed")
	connect("--profile", "../x").want(t, exitUsage, "letters, digits")
	if strings.Contains(entry(), "attach") {
		t.Errorf("a refused command has written\n%s", entry())
	}
	connect("--profile", "one").want(t, exitOK)
	if !strings.Contains(entry(), `"--profile"`) || !strings.Contains(entry(), `"one"`) {
		t.Errorf("no profile in\n%s", entry())
	}
	connect().want(t, exitOK, "nothing to change")
	connect("--profile", "").want(t, exitOK)
	if strings.Contains(entry(), "--profile") || !strings.Contains(entry(), "attach") {
		t.Errorf("the whole catalog is\n%s", entry())
	}
	connect("--print", "--profile", "team", "--url", "https://gate.example/mcp").want(t, exitOK, "https://gate.example/mcp/team")
}

// TestViewAtProfile: weir view asks at a profile, where only handles of that profile work.
func TestViewAtProfile(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nprofiles: {one: {include: [\"fake:echo\"]}, two: {include: [\"fake:echo\"]}}\n"+oneFake)
	s := start(t, path, "serve", "--config", path)
	at := func(profile string, args ...string) finished {
		return weir(t, append(args, "--url", s.base+"/mcp"+profile)...)
	}
	handle := handlePattern.FindString(at("/one", "call", s.tool("fake:echo"), "--arg", "size=5000").want(t, exitOK).stdout)
	if out := at("", "view", handle, "head", "4", "--profile", "one").want(t, exitOK); !strings.HasPrefix(out.stdout, "xxxx\n") {
		t.Errorf("view: %q", out.stdout)
	}
	at("", "view", handle, "--profile", "two").want(t, exitRefused, "VIEW_FAILED")
	at("", "view", handle, "--profile", "three").want(t, exitUnavailable, "--profile three needs a profile")
}
