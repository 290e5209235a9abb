// Package table stores rows and columns as their original JSON. A table is the bytes of its rows
// and an index of the positions of values. Selecting rows and columns copies byte ranges, so every
// value keeps its spelling: integers of twenty digits, 1e400, lone surrogates, escapes and the
// order of keys.
//
//	[{"id":1,"name":"a","tags":[]}, {"id":2,"name":"b"}]       Index, Detect, Builder
//	      │         │        │            │        │
//	shape 0 {"id":• ,"name":• ,"tags":• }  shape 1 {"id":• ,"name":• }
//	index:  row 0 = shape 0, 7 16 27 30    row 1 = shape 1, 39 48 51
//	      │
//	View = Table × rows × columns × names    Project, SelectRows, Rename, Query
//	      │
//	      └─▶ WriteJSON · WriteNDJSON · WriteCSV · WriteArrow      (byte copies, except the last two)
//
// The text between the values of a row is its shape. Rows of the same shape share it, and a new row
// is first compared with the shape of the previous row. If it matches, reading the row means
// comparing literals and skipping values.
//
// Keys are compared unescaped and case-sensitively. The columns are the union over all rows in
// order of first appearance. A field that is absent in a row stays absent (it does not become
// null). NaN, Infinity and -Infinity are not JSON, but many programs write them; they are read as
// null and counted. If a row has a key twice, the last value is used at the position of the first,
// as in encoding/json, Python and JavaScript. _row_id is the number of a row in its table
// (spec/tables §1), so a column of that name in the data is renamed to _row_id_data.
// [Options.KeepRowID] disables that for rows that were taken from another table.
//
// WriteArrow and WriteParquet need a codec, which programs get by the import of package s2sp/columnar.
//
// The package does not know MCP or HTTP, or where the bytes are stored.
package table
