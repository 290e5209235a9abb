package gateway

import (
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/policy"
)

// TestStrict: one key gives the letter of each clause of the published text from which weir departs by
// default. What the values do is tested where they are used.
func TestStrict(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c, _, err := config.Parse("weir.yaml", fmt.Appendf(nil, "strict: %t\nmcpServers: {a: {command: a}}\n", strict), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := metatool.Options{}
		policy.Controls(c, &o)
		for clause, got := range map[string]bool{
			"§1.5, §2.3, §3.3, §4.4: the catalog": limitsOf(c, func() *config.Config { return c }).Strict,
			"§3.4: causes in the log":             o.LogUnredacted,
			"§4.1: names are ids":                 o.Names == metatool.NameCanonical,
			"§4.1: no direct calls; §9.4: parts":  o.Strict,
		} {
			if got != strict {
				t.Errorf("strict %t, %s: %t", strict, clause, got)
			}
		}
	}
}
