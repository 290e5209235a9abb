// Package part is the contract of the parts of a gateway: which keys of the configuration each part owns,
// how a changed configuration reaches all parts or none, and in which order they end.
//
//	changed file ─▶ Table.Prepare ─┬─ an error: nothing has changed
//	                               └─▶ apply, part by part, in the order of the table
//	end ─▶ Table.Close: in the reverse order
//
// A part is made by its constructor, which is given what it needs, so the compiler finds a part that is
// used before it is made. The package knows no part.
package part
