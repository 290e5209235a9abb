package authserver

import "testing"

// TestHalfHash has the examples of OpenID Connect Core, appendix A: at_hash and c_hash are made in the same way.
func TestHalfHash(t *testing.T) {
	for text, want := range map[string]string{
		"jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y":                "77QmUPtjPfzWtF2AnpK9RQ",
		"Qcb0Orv1zh30vL1MPRsbm-diHiMwcLyZvn1arpZv-Jxf_11jnpEX3Tgfvk": "LDktKdoQak3Pk0cnXxCltA",
	} {
		if got := halfHash(text); got != want {
			t.Errorf("%s of %s, want %s", got, text, want)
		}
	}
}
