package gateway

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestCallSteps: a configuration shows which steps a call has.
func TestCallSteps(t *testing.T) {
	for text, want := range map[string]string{
		"mode: plain": "account answer find headers shape columns preview validate admit task send",
		"mode: gateway\ncache: {read_only: true}\nretry: {max_attempts: 2}\naudit: {dir: audit}": "cache audit task retry send",
	} {
		c, _, err := config.Parse("weir.yaml", []byte(text+"\nmcpServers: {}\n"), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, from := CallSteps(c), 0
		for _, name := range strings.Fields(want) {
			at := slices.Index(got[from:], name)
			if at < 0 {
				t.Fatalf("%s: no %s in its place in %q", text, name, got)
			}
			from += at + 1
		}
	}
}
