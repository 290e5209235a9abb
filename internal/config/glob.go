package config

// matchGlob reports whether the whole name matches the pattern. * stands for any text and ? for one
// character. It goes back at most to the last star. So a hostile pattern costs at most the product
// of the two lengths.
func matchGlob(pattern, name string) bool {
	pat, text := []rune(pattern), []rune(name)
	p, n, star, mark := 0, 0, -1, 0
	for n < len(text) {
		switch {
		case p < len(pat) && pat[p] == '*':
			star, mark = p, n
			p++
		case p < len(pat) && (pat[p] == '?' || pat[p] == text[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pat) && pat[p] == '*' {
		p++
	}
	return p == len(pat)
}
