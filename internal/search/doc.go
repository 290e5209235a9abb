// Package search ranks catalog entries for a query: lexically, without a network and without a model.
//
// It knows nothing of MCP, of the catalog or of where documents come from: a caller hands it one list of [Doc] per
// upstream and gets back ids and scores.
//
// # Flow
//
//	docs of an upstream ──With──▶ segment ─┐
//	docs of another     ──With──▶ segment ─┼─▶ view: numbering, idf, n-grams of the vocabulary, norms
//	                                       ┘      (made once per Index, from the segments' dictionaries)
//
//	query ─▶ words ─┬─▶ stems, raw tokens, synonyms ─▶ BM25F score ───────────── ÷ best ─┐
//	                └─▶ character 3–5-grams ─▶ similar terms ─▶ cosine × .5 ──── ÷ best ─┴─▶ sum
//	                                                                                          │
//	    best k by score, then id ◀── names, neighbours ◀── best 64 or k ◀── server prior × .3 ◀┘
//
// An [Index] is immutable. [Index.With] and [Index.Without] return another one that shares the segments of all other
// upstreams, so a refresh tokenises the texts of one upstream only and never disturbs searches under way.
//
// # Ranking
//
// The ranking is flat: every document is scored, no tree is descended and no server is cut. The order is by descending
// score, then ascending ID (spec/gateway §2.5). Fields are weighted apart, and a field's length is discounted against
// a fixed length, so that a posting is final once its segment is built. Names are split at _ - . / and in camelCase, and the
// unsplit word is kept beside its parts. Scripts without spaces are indexed by pairs of characters. A document that
// shares no word with the query and no word similar to one of the query's is not returned, however many are asked for.
//
// # Embeddings
//
// With an [Embedder] in [Options], [Index.Embed] gives documents vectors and [Index.SearchContext] adds their cosine with the
// query's to the sum above. Without one, and whenever it fails, nothing changes. Sub-package embedding has one over HTTP.
//
// Sub-package eval measures all this on sets of queries with known answers.
package search
