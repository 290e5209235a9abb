// Package columnar is the contract between tables and a codec of columnar forms: Arrow and Parquet.
//
//	package table ─▶ columnar ◀─Register─ columnar/codec, which links the libraries
//
// A program has the codec if it imports package s2sp/columnar. Without it the forms are recognized, and each
// use of them is an error that names the import.
package columnar
