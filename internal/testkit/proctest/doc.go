// Package proctest looks at processes for tests: whether one runs, its end by force, the end of all
// that a test binary leaves behind, and addresses where programs may listen.
//
//	test ─▶ Alive, Kill, KillGroup, Group ─▶ the system's process
//	TestMain ─▶ Guard ─▶ guard: waits for the end of the test binary, ends what runs with its mark
//
// Without process groups, as on Windows, KillGroup returns errors.ErrUnsupported. The package knows
// nothing of weir.
package proctest
