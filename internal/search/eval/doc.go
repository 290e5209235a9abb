// Package eval measures package search on sets of queries whose answers are known.
//
// It knows the files of a set and the metrics, and of the ranking only the exported methods of
// [search.Index].
//
//	DIR/<set>/tools.jsonl  {"id","server","name","title"?,"description","inputSchema"?,"tags"?}
//	DIR/<set>/dev.jsonl    {"id","query","gold":[id],"gold_groups"?:[[id]]}
//
//	tools ─▶ search.Index (one upstream per server) ─▶ ten hits per query ─▶ Metrics ─▶ means per set ─▶ macro means
//
// A set without tools.jsonl searches the tools of the set whose name is a prefix of its own (a_b the tools of a). Each
// inner list of gold_groups is interchangeable; without it every gold id is a group of its own. Recall@k is groups hit
// in the first k divided by groups, nDCG@10 has binary gain per group, MRR looks at the first hit; all are means over
// the queries of a set, and a macro row is the mean over sets, each counting alike.
package eval
