package text

// Cut returns the first n characters of s. A byte that is not UTF-8 counts as a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
