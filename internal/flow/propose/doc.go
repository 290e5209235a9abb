// Package propose writes a first flow section for the tools that servers list: which tools are sinks, which of their
// arguments are sensitive, whose results are trusted and which values of results a program may use. It reads names,
// descriptions, schemas and hints, and nothing else:
//
//	tool ─┬─ no verb of reading, or an argument that is a URL ─▶ sink: kind and sensitive arguments
//	      └─ only reads ─┬─ closed result, a clock, the caller's own data ─▶ trusted
//	                     └─ everything else ─▶ untrusted; ids and numbers of its schema are declassified
//
// A server writes all of this itself, so the result is for a person to read. Where the words are not known, the answer
// is the one that asks more: a tool is a sink, an argument is sensitive, a result is untrusted.
package propose
