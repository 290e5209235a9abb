package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/smcp/computer"
)

// TestDocumentedConfigurations: what documents show of configurations has no
// mistake in it. Blocks may be parts of one.
func TestDocumentedConfigurations(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	fence := regexp.MustCompile("(?ms)^( *)```(yaml|json)\n(.*?)^ *```$")
	hash := regexp.MustCompile(`sha256: (…|THE-HASH)`)
	hashes := 0
	nextHash := func(string) string { // no two tokens have the same
		hashes++
		return fmt.Sprintf("sha256: %064x", hashes)
	}
	key := strings.Repeat("A", 43) + "=" // 32 bytes
	opts := config.Options{
		LookupEnv:    func(string) (string, bool) { return strings.Repeat("x", 40), true },
		LookupSecret: func(string) (string, bool, error) { return strings.Repeat("s", 40), true, nil },
		Executable:   func() (string, error) { return "/weir", nil },
		ReadFile:     func(string) ([]byte, error) { return []byte("# a file"), nil },
		Inputs:       func(config.Input) (string, bool, error) { return "an answer", true, nil },
		FreePort:     func() (int, error) { return 1, nil },
		Strict:       true,
	}
	checked := 0
	for _, name := range append(documents, "../../README.md") {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(data), -1) {
			text := regexp.MustCompile("(?m)^"+m[1]).ReplaceAllString(m[3], "")
			text = hash.ReplaceAllStringFunc(strings.ReplaceAll(text, "PUBLIC-KEY", key), nextHash)
			switch {
			case strings.Contains(text, "server_parameters"):
				_, err = computer.Parse("computer.json", []byte(text))
			case strings.Contains(text, "inputSchema"), strings.Contains(text, "resource_url"):
				continue // an agent's, which package agentserver tests; an answer
			case strings.HasPrefix(text, "- {as:"):
				continue // calls for weir policy test, which TestPolicyRecipes runs
			case m[2] == "json":
				_, _, err = config.Parse(".mcp.json", []byte(text), opts)
			default:
				_, _, err = config.Parse("weir.yaml", []byte(text), opts)
			}
			checked++
			if err != nil {
				t.Errorf("%s:\n%s\n%v", name, text, err)
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d configurations were found", checked)
	}
}
