package lazy

import (
	"regexp"
	"sync"
)

// Pattern returns a function that returns the compiled pattern. It compiles once, at the first call,
// and panics then if the pattern is wrong.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
