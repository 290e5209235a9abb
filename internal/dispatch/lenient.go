package dispatch

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Servers do not agree on what a URI names. Some cut off "?" and "#", and others take them for a part
// of a path. Some decode escapes twice, or accept "/" in two bytes. weir does not know how a server
// reads, and sends a URI as it is written. So it also compares the URI as the most lenient reader
// takes it, and refuses one that readers may follow to different places.
//
//	file:///a/%252e%252e/b     file:///a#/../b     file:///a/..;x/b     file:///a/%c0%ae./b

// lenient returns a URI as the most lenient reader takes it, "" without a scheme: no parameters in
// its path, and each escape decoded, also one that decoding makes.
func lenient(uri string, pattern bool) string {
	u, ok := readURI(uri, pattern)
	if !ok {
		return ""
	}
	segments := strings.Split(lenientPath(u.path), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	u.path = escaped(strings.Join(segments, "/"), pattern)
	if u.scheme == "file" {
		return u.onDisk(pattern)
	}
	return u.spelled(pattern)
}

// Unclear returns the reason why a URI is refused if no list has it, "" for none: it has "..", in a
// form that servers read in different ways, or a control character, which some servers drop and at
// which others end.
func Unclear(uri string) string {
	u, ok := readURI(uri, true)
	if !ok {
		return ""
	}
	_, rest, _ := strings.Cut(uri, ":")
	known := u.scheme == "file"
	if defaultPorts[u.scheme] != "" {
		known = true
		rest, _, _ = strings.Cut(rest, "#")
		rest, _, _ = strings.Cut(rest, "?")
	}
	path := lenientPath(strings.TrimFunc(rest, func(r rune) bool { return r <= ' ' }))
	for _, r := range path {
		if r < ' ' || r == 0x7f {
			return "no resource is listed under this URI, and it has a control character, which servers read in different ways: leave it out"
		}
	}
	if known && !strings.ContainsAny(normalEscapes(rest, false), `%\;?#`) {
		return "" // all readers follow its dots to one place
	}
	for segment := range strings.SplitSeq(path, "/") {
		if isParent(segment) {
			return `no resource is listed under this URI, and it has "..", which servers follow to different places here: write the URI without ".."`
		}
	}
	return ""
}

// isParent reports whether a lenient reader takes a segment of a path for "..".
func isParent(segment string) bool {
	segment, _, _ = strings.Cut(segment, ";")
	var dots int
	for _, r := range segment {
		switch {
		case r == '.':
			dots++
		case r != ' ' && r != utf8.RuneError && !invisible(r): // Windows and lenient decoders drop these
			return false
		}
	}
	return dots == 2
}

// lenientPath returns a path with all escapes decoded, in NFKC, with slashes of one kind.
func lenientPath(path string) string {
	plain := true
	for i := range len(path) {
		plain = plain && path[i] != '%' && path[i] != '\\' && path[i] < utf8.RuneSelf
	}
	if plain {
		return path
	}
	path = shortest(unescapedAll(path))
	if utf8.ValidString(path) {
		path = norm.NFKC.String(path)
	}
	return strings.NewReplacer(`\`, "/", "\u2044", "/", "\u2215", "/", "\u29f8", "/", "\u2216", "/", "\u29f5", "/").Replace(path)
}

// unescapedAll decodes the escapes of a text until it has none.
func unescapedAll(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		for n := len(out) - 3; n >= 0; n = len(out) - 3 {
			c, ok := escapeAt(string(out[n:]), 0)
			if !ok {
				break
			}
			out = append(out[:n], c)
		}
	}
	return string(out)
}

// shortest returns a text with the characters of ASCII that it has in a longer form of UTF-8, as "/"
// in C0 AF, in one byte each.
func shortest(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		n := 0 // bytes that follow
		switch lead := s[i]; lead {
		case 0xc0, 0xc1:
			n = 1
		case 0xe0:
			n = 2
		case 0xf0:
			n = 3
		}
		r := rune(s[i] & 1)
		whole := n > 0 && i+n < len(s)
		for j := i + 1; whole && j <= i+n; j++ {
			whole = s[j]&0xc0 == 0x80
			r = r<<6 | rune(s[j]&0x3f)
		}
		if whole && r < utf8.RuneSelf {
			out, i = append(out, byte(r)), i+n
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}
