// Package strict reads configuration files into structs and says everything that is wrong with them, each with
// its line and the key that was probably meant. It knows no keys: those are tags of the caller's structs.
//
//	a file ──Read──▶ nodes with places ──Decoder.Decode──▶ a struct, by the tags of its fields
//	  YAML, or JSON with comments                └──▶ Problems and Warnings, each with its place
//
// The tags of a field:
//
//	key:"max_attempts"    its key in the file; a field without one is not in the file
//	default:"3"           the value where the file has none, as the file would have it
//	enum:"a,b"            the values that are legal; for a list, the texts that may stand in its place
//	min:"1" max:"10"      the smallest and the largest legal value
//	doc:"…"               a sentence for a JSON Schema
//	name:"Name"           in a slice of structs: the file has a mapping, whose keys go into this field of the element
//	entries:"true"        with name: what is wrong within one entry is kept apart; see [Decoder.Fault]
//	flag:"enabled"        in a struct: true or false in its place is the value of this key
//	text:"at"             in a struct: a text in its place is the value of this key
//	safety:"true"         unknown keys within it, and keys that are nearly its name, are errors in lenient files, too
//
// The fields of an embedded struct count as fields of the struct around it. A field of type [Place] takes the place
// of its struct, one of type *[Node] the value as it stands in the file, and a type with a method DecodeStrict reads
// itself; see [Value]. Two settings are for files of other programs: [Options.Lenient] makes keys without effect
// warnings, and [Options.Quoted] reads a number or a boolean in quotes.
package strict
