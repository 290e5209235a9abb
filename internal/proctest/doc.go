// Package proctest looks at processes for tests: whether one runs, and its end by force.
//
//	test ─▶ Alive, Kill, KillGroup, Group ─▶ the system's process
//
// Without process groups, as on Windows, KillGroup returns errors.ErrUnsupported. The package knows
// nothing of weir.
package proctest
