// Package markup writes the pages that weir serves to browsers: HTML with places for values. It knows
// nothing of what a page is for.
//
//	source ─▶ New: parts, and the place of each value ─▶ Page.Write: values, escaped for their place
//
// A source has these marks. A name stands for a value, which may be of an enclosing block:
//
//	{{name}}                            a string
//	{{if name}} … {{else}} … {{end}}    unless the value is "", false or an empty list
//	{{each name}} … {{end}}             once for each element of a list
//
// The standard library's template packages call methods by name, so no linker can leave out a method
// that any type of the program has: that made the program a ninth larger.
package markup
