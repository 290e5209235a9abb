package visible

import "unicode/utf8"

// JSON escapes the characters of a JSON text that Text would remove. The value stays the same, and
// a terminal that shows it obeys nothing in it. If there are none, JSON returns raw itself.
func JSON(raw []byte) []byte {
	ascii := true
	for _, c := range raw {
		if c >= 0x7f {
			ascii = false
			break
		}
	}
	if ascii {
		return raw // JSON escapes ASCII controls, except white space
	}
	s := string(raw)
	r := reader{s: s}
	var out []byte
	done := 0
	for at := suspicious(s, 0); at < len(s); {
		c, size := utf8.DecodeRuneInString(s[at:])
		if c >= 0x7f && (c != utf8.RuneError || size > 1) {
			if verdict, _ := r.judge(c, size, at); verdict != keep {
				out = append(out, s[done:at]...)
				if c > 0xffff {
					c -= 0x10000
					out = appendEscape(out, 0xd800+c>>10)
					c = 0xdc00 + c&0x3ff
				}
				out = appendEscape(out, c)
				done = at + size
			}
		}
		at = suspicious(s, at+size)
	}
	if done == 0 {
		return raw
	}
	return append(out, s[done:]...)
}

func appendEscape(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
