// Package serverlog keeps the standard error of server programs: the last 256 KB of each server,
// across restarts of its programs.
//
//	child's stderr ─▶ Program: lines, without secrets ─▶ Book: a ring for each server ─▶ Lines, Wait
//	start, end ──────▶ marks between the lines
//
// Lines of all servers share one numbering, so that a reader of several servers gets them in their
// order and can continue after the last line that it has. The package knows neither processes nor
// configurations.
package serverlog
