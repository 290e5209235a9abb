// Package leak fails a test binary that leaves goroutines behind, and measures the memory of a function.
//
// The house rule is that every goroutine has an owner that waits for its end. A test binary is where that can be checked:
// once all its tests are done, nothing but the runtime and the testing package may still run. The package knows nothing
// of MCP or of any other package of this module, and only tests may import it.
//
//	TestMain ─▶ leak.Main(m) ─▶ m.Run() ─▶ list goroutines ─▶ only expected ones? ─▶ exit code of the tests
//	                                             ▲                  │ no
//	                                             └── wait, at most ─┘
//	                                                 five seconds ──▶ print the stacks, exit 1
//
// Use it once per package with tests that start goroutines:
//
//	func TestMain(m *testing.M) { leak.Main(m) }
package leak
