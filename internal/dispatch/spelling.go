package dispatch

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// One name can be written in several ways: a server may read file:///b as file:///a/../b, and
// "drop" as "Drop ". A rule has one spelling, so an agent's text is compared in its other spellings
// as well.
//
//	FILE://localhost/%73ecret/../a%2Fb?x ─ spelled ─▶ file:///a%2Fb?x     (RFC 3986 §6.2, and what browsers strip)
//	                                     ├ onDisk ──▶ file:///a/b         (as a file system sees it)
//	                                     └ lenient ─▶ file:///a/b         (as the most lenient reader takes it; see lenient.go)
//	" Ｄrop\u200b"                       ─ folded ──▶ drop

// Spelling is one way to write a URI.
type Spelling struct {
	URI string
	// Lenient means that only the most lenient readers take the URI for this one.
	Lenient bool
}

// Spellings returns the other spellings of a URI. It returns none for a URI in normal form and for
// other texts.
func Spellings(uri string) []Spelling {
	var list []Spelling
	for i, s := range []string{Spelled(uri, false), onDisk(uri, false), lenient(uri, false)} {
		if s != "" && s != uri && !slices.ContainsFunc(list, func(known Spelling) bool { return known.URI == s }) {
			list = append(list, Spelling{URI: s, Lenient: i == 2})
		}
	}
	return list
}

// matchSpelled reports whether a pattern that an operator wrote matches a URI, as it is written or in
// normal form. A lenient spelling is also compared with the pattern's.
func matchSpelled(pattern string, uri Spelling) bool {
	if matchPattern(pattern, uri.URI) {
		return true
	}
	forms := []string{Spelled(pattern, true), onDisk(pattern, true)}
	if uri.Lenient {
		forms = append(forms, lenient(pattern, true))
	}
	for _, p := range forms {
		if p != "" && p != pattern && matchPattern(p, uri.URI) {
			return true
		}
	}
	return false
}

// uriParts are the parts of a URI. The authority is there where slashes say so.
type uriParts struct {
	scheme, authority, path, query string
	hasAuthority, hasQuery         bool
}

// readURI splits a URI: without its fragment, which servers do not receive, and without the white
// space that browsers remove. In a pattern, wildcards stay. ok is false if there is no scheme.
func readURI(uri string, pattern bool) (u uriParts, ok bool) {
	uri = strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(uri, "\t\r\n") {
		uri = strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(uri)
	}
	colon := strings.IndexByte(uri, ':')
	if colon <= 0 || !isScheme(uri[:colon]) {
		return u, false
	}
	u.scheme = strings.ToLower(uri[:colon])
	rest := uri[colon+1:]
	if !pattern {
		rest, _, _ = strings.Cut(rest, "#")
	}
	rest, u.query, u.hasQuery = strings.Cut(rest, "?")
	if defaultPorts[u.scheme] != "" || u.scheme == "file" {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	if after, found := strings.CutPrefix(rest, "//"); found {
		u.hasAuthority = true
		rest = after
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			u.authority, u.path = rest[:i], rest[i:]
		} else {
			u.authority, u.path = rest, ""
		}
		return u, true
	}
	u.path = rest
	return u, true
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || s[i] != '+' && s[i] != '-' && s[i] != '.' && ('0' > s[i] || s[i] > '9')) {
			return false
		}
	}
	return true
}

// defaultPorts are the ports of the schemes for which browsers have rules.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// Spelled returns a URI in normal form: scheme and host in lower case, only necessary escapes and
// these in upper case, no dot segments, no default port, no localhost in a file: URI, no fragment.
// It is "" without a scheme. In a pattern, * and ? stay wildcards.
func Spelled(uri string, pattern bool) string {
	u, ok := readURI(uri, pattern)
	if !ok {
		return ""
	}
	return u.spelled(pattern)
}

func (u uriParts) spelled(pattern bool) string {
	u.path = withoutDots(normalEscapes(u.path, pattern))
	host := normalAuthority(u.authority, u.scheme)
	switch {
	case u.scheme == "file" && (host == "localhost" || !u.hasAuthority && strings.HasPrefix(u.path, "/")):
		host, u.hasAuthority = "", true
	case u.hasAuthority && u.path == "" && defaultPorts[u.scheme] != "":
		u.path = "/"
	}
	out := u.scheme + ":"
	if u.hasAuthority {
		out += "//" + host
	}
	out += u.path
	if u.hasQuery {
		out += "?" + normalEscapes(u.query, pattern)
	}
	return out
}

// onDisk returns a file: URI in the form that a file system uses: all escapes decoded, backslashes
// and runs of slashes as one slash, no dot segments, host or query. It is "" for other URIs.
func onDisk(uri string, pattern bool) string {
	u, ok := readURI(uri, pattern)
	if !ok || u.scheme != "file" {
		return ""
	}
	return u.onDisk(pattern)
}

func (u uriParts) onDisk(pattern bool) string {
	if pattern && u.hasQuery {
		u.path += "?" + u.query // a wildcard
	}
	path := strings.ReplaceAll(unescaped(u.path), `\`, "/")
	var b strings.Builder
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	path = withoutDots(b.String())
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return "file://" + escaped(path, pattern)
}

// normalAuthority returns an authority with its host in lower case and without the scheme's default
// port.
func normalAuthority(authority, scheme string) string {
	user, host := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, host = normalEscapes(authority[:i], true)+"@", authority[i+1:]
	}
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		port := strings.TrimLeft(host[i+1:], "0")
		host = host[:i]
		if port != "" && port != defaultPorts[scheme] {
			host += ":" + port
		}
	}
	return user + strings.ToLower(normalEscapes(host, true))
}

const upperHex = "0123456789ABCDEF"

// escapeAt reads the escape at index i of s.
func escapeAt(s string, i int) (c byte, ok bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi, lo := unhex(s[i+1]), unhex(s[i+2])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// unreserved reports whether a character is never escaped (RFC 3986 §2.3).
func unreserved(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// reserved reports whether a character stays as written (RFC 3986 §2.2).
func reserved(c byte) bool { return strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0 }

// normalEscapes writes the escapes of a part of a URI in normal form. Braces of a pattern stay,
// because it may be a template.
func normalEscapes(s string, pattern bool) string {
	plain := true
	for i := range len(s) {
		plain = plain && (unreserved(s[i]) || reserved(s[i]))
	}
	if plain {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); i++ {
		c, isEscape := escapeAt(s, i)
		switch {
		case isEscape && unreserved(c):
			out = append(out, c)
		case isEscape:
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		case unreserved(s[i]), reserved(s[i]), pattern && (s[i] == '{' || s[i] == '}'):
			out = append(out, s[i])
		default:
			out = append(out, '%', upperHex[s[i]>>4], upperHex[s[i]&15])
		}
		if isEscape {
			i += 2
		}
	}
	return string(out)
}

// unescaped decodes all escapes.
func unescaped(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c, ok := escapeAt(s, i); ok {
			out = append(out, c)
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

// escaped encodes a path for a URI.
func escaped(path string, pattern bool) string {
	out := make([]byte, 0, len(path)+16)
	for i := range len(path) {
		c := path[i]
		wild := pattern && (c == '?' || c == '#')
		if unreserved(c) || reserved(c) && c != '?' && c != '#' || wild {
			out = append(out, c)
			continue
		}
		out = append(out, '%', upperHex[c>>4], upperHex[c&15])
	}
	return string(out)
}

// withoutDots removes the segments . and .. of a path (RFC 3986 §5.2.4).
func withoutDots(path string) string {
	if !strings.Contains(path, ".") {
		return path
	}
	segments := strings.Split(path, "/")
	rooted := segments[0] == "" && len(segments) > 1
	var out []string
	if rooted {
		segments = segments[1:]
	}
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".":
			if last {
				out = append(out, "")
			}
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	joined := strings.Join(out, "/")
	if rooted {
		return "/" + joined
	}
	return joined
}

// Folded returns a name for readers that ignore case, width and invisible characters: in Unicode's
// NFKC, case-folded, without invisible characters and surrounding white space.
func Folded(name string) string {
	if isPlain(name) {
		return name
	}
	s := norm.NFKC.String(strings.ToValidUTF8(name, "\uFFFD"))
	var b strings.Builder
	for _, r := range s {
		switch {
		case invisible(r):
		case r == 'ß', r == 'ẞ':
			b.WriteString("ss")
		default:
			b.WriteRune(foldRune(r))
		}
	}
	return strings.TrimSpace(norm.NFKC.String(b.String()))
}

// isPlain reports whether a name is its own folded form, as nearly all are.
func isPlain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

// foldRune returns the same rune for all runes that differ only in case.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}

// invisible reports whether readers overlook a character: it has no width of its own, or is blank
// without being white space.
func invisible(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
		return true
	case r == '\u034f', r == '\u115f', r == '\u1160', r == '\u17b4', r == '\u17b5', r == '\u2800', r == '\u3164', r == '\uffa0':
		return true // joiners and fillers
	}
	return false
}
