// Package columnar lets a program write tables as Arrow and Parquet, and read them, with the packages s2sp,
// s2sp/plane and s2sp/table. It exports nothing; import it for its effect, once in a program:
//
//	import _ "github.com/weir-mcp/weir/s2sp/columnar"
//
// It links the libraries of both forms. A program without it serves JSON, NDJSON and CSV, and each use of
// Arrow or Parquet is an error that names this import.
package columnar

import _ "github.com/weir-mcp/weir/internal/columnar/codec" // registers the codec
