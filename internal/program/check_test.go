package program

import (
	"errors"
	"strings"
	"testing"
)

// Check names the line of a mistake, and runs nothing.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"return 1", "const a = await call('x', {});\nreturn a", "for (;;) {}", "throw new Error('no')"} {
		if err := Check(source); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	for source, line := range map[string]int{"return (": 2, "const a = 1;\nconst b = ;": 2, "let a;\n\nlet a;": 3, "import x from 'y'": 1} {
		err := Check(source)
		var of *Error
		if !errors.As(err, &of) || of.Code != Syntax || of.Line != line {
			t.Errorf("%q: %v, want line %d", source, err, line)
		}
	}
	if err := Check("(" + strings.Repeat("[", 100_000)); err == nil {
		t.Error("no error of a program that is too deep")
	}
}
