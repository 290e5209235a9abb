// Package version answers weir --version before the packages of the gateway are initialised. Their
// variables take most of such a short run: one library compiles the schemas of all drafts of JSON
// Schema.
//
//	runtime, os ─▶ version: --version? print it and exit ─▶ all other packages ─▶ main
//
// Go initialises packages in the order of their import paths, each as soon as its imports are
// ready. So this package imports os alone: fmt would be ready only after half of the other packages.
// It knows no command. Only cmd/weir may import it, because it reads the arguments of the process.
package version

import "os"

// unlinked is the version of a program that was built without the linker's flag. Such a program
// answers in main: what the Go toolchain recorded of it is in runtime/debug.
const unlinked = "devel"

// Linked is set by the linker: -X github.com/weir-mcp/weir/internal/version.Linked=v1.2.3.
var Linked = unlinked

func init() {
	if text := answer(Linked, os.Args); text != "" {
		if _, err := os.Stdout.WriteString(text); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// answer returns what a process prints with these arguments, or "" if main decides.
func answer(linked string, args []string) string {
	if linked == unlinked || len(args) < 2 || args[1] != "--version" && args[1] != "-v" {
		return ""
	}
	return "weir " + linked + "\n"
}
