// Package feedback learns which tools callers run after a search, and prefers them in later searches
// with the same words.
//
// It knows no catalog, no call and no ranking: it is told of searches and of runs, and is a
// search.Preference.
//
//	search ─▶ Memory.Search ─▶ Shares (rank) ─▶ Shown ─┐ the session's last searches
//	run    ─▶ Memory.Ran ◀─────────────────────────────┘
//	            │ +1 for each word of the search
//	            ▼
//	          group ── every 10 s, and at the end ──▶ document of the group: compare-and-set, counts add up
//
// # Who learns from whom
//
// The callers of one profile with the same groups of the same issuer learn together. A caller without
// groups learns for itself. A count never reaches another group. The share of a tool is one among the
// tools that a search has found for its caller, so a tool that is hidden from the caller changes
// nothing.
//
// # What is kept
//
// For each group, at most 512 pairs of a word and a tool with a count, both as hashes that are keyed by
// the store's secret. Queries, arguments and results are not kept. A count halves in 14 days. A group
// that learns nothing for 28 days is forgotten.
package feedback
