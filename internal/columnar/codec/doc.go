// Package codec writes rows of JSON as Arrow and Parquet, and reads these forms as rows of JSON. A program that
// imports it has the codec of package columnar.
//
//	rows ─▶ types of the columns (one pass) ─▶ Arrow IPC stream: record batches
//	                                       └─▶ Parquet file: row groups
//	Arrow stream or file, Parquet file ─▶ bounds are checked and taken ─▶ a JSON object a row
//
// A column has the narrowest type that holds all its values: bool, int64, float64, decimal, string, date,
// timestamp, or a list of one of these. A column that has none, such as one of objects or of mixed kinds,
// holds the JSON text of its values and is marked.
//
// What is read comes from servers. Every size in it is compared with the bytes that are there, and the
// memory of the decoder is asked for, before anything is decoded.
//
// The package knows neither tables nor where bytes are from.
package codec
