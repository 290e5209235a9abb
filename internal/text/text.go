package text

// Cut returns the first n characters of s. A byte that is not UTF-8 counts as a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := 0
	for ; n >= 8 && ascii8(s[at:]); n -= 8 { // s has more than n bytes from at on
		at += 8
	}
	for i := range s[at:] {
		if n == 0 {
			return s[:at+i]
		}
		n--
	}
	return s
}

// ascii8 reports whether the first eight bytes of s are ASCII.
func ascii8(s string) bool {
	_ = s[7]
	return (s[0]|s[1]|s[2]|s[3]|s[4]|s[5]|s[6]|s[7])&0x80 == 0
}
