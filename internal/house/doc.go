// Package house keeps the rules of this module: the layers its packages are in, and the few habits that a reviewer would
// otherwise have to look for in every change. It knows nothing of the work of packages; it reads their source.
//
//	fs.FS of the module ─▶ Load ─▶ Tree ─▶ each Rule ─▶ findings, each with its file and line
//	                               (packages, imports,
//	                                files, documents)
//
// The rules run as tests of this package (go test ./internal/house). A finding is printed with the rule's reason, because a
// rule whose reason is forgotten is soon worked around. layers.go holds the table of packages: a new package gets a line
// there.
package house
