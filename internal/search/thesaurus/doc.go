// Package thesaurus knows which words are near each other in meaning: folder and directory, sum and
// total, remember and memory.
//
// The table is generated, not written by hand, and comes with the program: some 200,000 pairs of
// word stems with the cosine of their vectors in all-MiniLM-L6-v2 (Apache-2.0), as packaged on PyPI.
// Folder generate has the two steps and the versions, so that anyone can make it again:
//
//	generate/words.py ─▶ pairs of words ─▶ go run ./internal/search/thesaurus/generate ─▶ table.bin
//
// [Near] reads the table where it lies in the program: nothing is parsed and nothing is allocated.
package thesaurus
