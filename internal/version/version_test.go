package version

import "testing"

// TestAnswer: only programs with a linked version answer, and only if it is asked for first.
func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		linked string
		args   []string
		want   string
	}{
		{"v1.2.3", []string{"weir", "--version"}, "weir v1.2.3\n"},
		{"v1.2.3", []string{"weir", "-v", "--help", "x"}, "weir v1.2.3\n"},
		{"v1.2.3", []string{"weir", "ls", "--version"}, ""},
		{"v1.2.3", []string{"weir"}, ""},
		{"v1.2.3", nil, ""},
		{unlinked, []string{"weir", "--version"}, ""},
	} {
		if got := answer(c.linked, c.args); got != c.want {
			t.Errorf("answer(%q, %q) = %q, want %q", c.linked, c.args, got, c.want)
		}
	}
}
