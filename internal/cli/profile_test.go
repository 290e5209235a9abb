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
