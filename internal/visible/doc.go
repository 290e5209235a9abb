// Package visible keeps text that others wrote to what a person sees of it. A
// language model reads every character: instructions in Unicode tags, words that
// are split by zero-width spaces, an order that bidirectional controls turn around.
// A terminal obeys control characters, those of C1 too.
//
//	"Reads a file.\U000E0049\U000E0067…" ──Text──▶ "Reads a file."
//	                                     ──Find──▶ Tags
//
// What a script needs to be written stays: joiners in Persian, Hindi or Sinhala
// and in emoji, variation selectors behind characters that have variations,
// zero-width spaces in Khmer and Thai, a mark of direction beside Hebrew or
// Arabic. So texts that people write do not change; testdata/corpus.txt shows which.
//
// The package is pure and knows nothing of MCP. Text that has nothing to hide is
// returned as it is, after a look at a few bytes per nanosecond.
package visible
