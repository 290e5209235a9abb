// Package visible reduces untrusted text to the characters that a person sees. A language model
// reads every character: instructions in Unicode tags, words split by zero-width spaces, text
// reversed by bidirectional controls. A terminal obeys control characters, including the controls
// of C1.
//
//	"Reads a file.\U000E0049\U000E0067…" ──Text──▶ "Reads a file."
//	                                     ──Find──▶ Tags
//
// Characters that a script needs are kept: joiners in Persian, Hindi or Sinhala and in emoji,
// variation selectors after characters with variations, zero-width spaces in Khmer and Thai, and
// direction marks next to Hebrew or Arabic. So texts that people write do not change;
// testdata/corpus.txt has examples.
//
// The package is pure and knows nothing of MCP. It returns clean text unchanged, after a scan of a
// few bytes per nanosecond.
package visible
