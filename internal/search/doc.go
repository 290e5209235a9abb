// Package search ranks catalog entries for a query: lexically, without a network and without a
// model.
//
// It knows nothing of MCP or the catalog: a caller passes in one list of [Doc] per upstream and
// gets ids and scores.
//
// # Flow
//
//	docs of an upstream ──With──▶ segment ─┐
//	docs of another     ──With──▶ segment ─┼─▶ view: numbering, idf, n-grams of the vocabulary, norms
//	                                       ┘      (made once per Index; a small change of a large one shares the last view)
//
//	query ─▶ words ─┬─▶ stems, raw tokens, related words ─▶ BM25F score ──────── ÷ best ─┐
//	                └─▶ character 3–5-grams ─▶ similar terms ─▶ cosine × .5 ──── ÷ best ─┴─▶ sum
//	                                                                                          │
//	    best k by score, then id ◀── names, neighbours ◀── best 64 or k ◀── server prior × .3 ◀┘
//	                                 acts, exact names, twins
//
// An [Index] is immutable. [Index.With] and [Index.Without] return another one that shares the
// segments of all other upstreams. So a refresh tokenises the texts of one upstream only and never
// disturbs running searches.
//
// # Ranking
//
// The ranking is flat: every document is scored, without a tree and without preselecting servers.
// Results are sorted by descending score, then ascending ID (spec/gateway §2.5). Fields have
// separate weights, and a field's length is normalised by a fixed length, so that a posting is
// final once its segment is built. Names are split at _ - . / and in camelCase, and the whole word
// is indexed as well. Scripts without spaces are indexed by pairs of characters. A document is
// returned only if it shares a word, or a similar word, with the query.
//
// A query's words are widened by words of the same meaning: hand-made synonyms and package
// thesaurus. The query is also read for the act that it asks for. A document whose name acts
// otherwise, or acts at all where the query asks, loses a share of its score. A document that the
// query names exactly comes first, and of two that a server offers as x and server_x one takes the
// place. [Index.Fit] distinguishes a good best hit from a bad one and says which words are unmet,
// [Index.Explain] says why a document stands where it does.
//
// # Embeddings
//
// With an [Embedder] in [Options], [Index.Embed] computes the documents' vectors, and
// [Index.SearchContext] adds their cosine with the query's vector to the score. Without one, and
// whenever it fails, the lexical ranking applies. Sub-package embedding has an Embedder over HTTP.
//
// Sub-package eval measures the ranking on sets of queries with known answers.
package search
