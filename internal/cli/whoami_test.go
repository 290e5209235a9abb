package cli

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/web"
)

// TestWhoamiOfMissingGroups: a caller whose issuer left groups out reads why rules do not let it in.
func TestWhoamiOfMissingGroups(t *testing.T) {
	for groups, want := range map[string]string{"": "none (the issuer left some out", "dev": "dev (the issuer left some out"} {
		me := web.Whoami{Principal: "corp:u1", GroupsMissing: true}
		if groups != "" {
			me.Groups = []string{groups}
		}
		var out strings.Builder
		printWhoami(terminal{Writer: &out}, me)
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "principal  corp:u1\n") {
			t.Errorf("weir whoami says %q", out.String())
		}
	}
}
