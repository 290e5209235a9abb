package computer

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/text/redact"
)

// Agents see where the values of a configuration come from, never the values. Placeholders stay;
// literal values are masked.

// masked replaces a literal value in get_config.
const masked = "<kept on the Computer>"

// maskText keeps the placeholders of a string, and the scheme of "Bearer ${…}".
func maskText(text string) string {
	refs := placeholder.FindAllStringIndex(text, -1)
	if text == "" || len(refs) == 0 {
		return maskLiteral(text)
	}
	var out strings.Builder
	at := 0
	for _, ref := range refs {
		out.WriteString(maskLiteral(text[at:ref[0]]))
		out.WriteString(text[ref[0]:ref[1]])
		at = ref[1]
	}
	out.WriteString(maskLiteral(text[at:]))
	return out.String()
}

// maskLiteral masks the text between placeholders, unless it is only punctuation.
func maskLiteral(text string) string {
	switch word := strings.ToLower(strings.TrimSpace(text)); {
	case !strings.ContainsFunc(word, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f }):
		return text
	case slices.Contains([]string{"bearer", "basic", "token", "apikey"}, word):
		return text
	}
	return masked
}

func maskMap(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for key, text := range m {
		out[key] = maskText(text)
	}
	return out
}

// inURL replaces a part of a URL, because masked would need escapes there.
const inURL = "x"

// userinfo matches the part before the host of a URL, up to the last @ as in net/url. A URL may
// contain placeholders anywhere, so net/url cannot parse it.
var userinfo = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://)((?:\$\{[^}]*\}|[^/?#])*)@`)

// maskURL masks the credentials, random path segments and query values of a URL.
func maskURL(text string) string {
	if _, err := url.Parse(placeholder.ReplaceAllString(text, "p")); err != nil {
		return maskText(text)
	}
	text, fragment, hasFragment := strings.Cut(text, "#")
	base, query, hasQuery := strings.Cut(text, "?")
	if m := userinfo.FindStringSubmatch(base); m != nil {
		base = m[1] + maskUser(m[2]) + "@" + base[len(m[0]):]
	}
	segments := strings.Split(base, "/")
	for i, segment := range segments {
		if i > 2 && redact.Random(segment) { // after the host
			segments[i] = inURL
		}
	}
	base = strings.Join(segments, "/")
	if hasQuery {
		pairs := strings.Split(query, "&")
		for i, pair := range pairs {
			if name, value, ok := strings.Cut(pair, "="); ok && value != "" && !placeholder.MatchString(value) {
				pairs[i] = name + "=" + inURL
			} else if !ok && pair != "" && !placeholder.MatchString(pair) {
				pairs[i] = inURL
			}
		}
		base += "?" + strings.Join(pairs, "&")
	}
	if hasFragment {
		base += "#" + maskFragment(fragment)
	}
	return base
}

func maskFragment(text string) string {
	if text == "" || placeholder.MatchString(text) {
		return text
	}
	return inURL
}

// maskUser masks NAME:PASSWORD to NAME:x. A name without a password is treated as a token.
func maskUser(text string) string {
	literal := placeholder.ReplaceAllString(text, "")
	name, password, ok := strings.Cut(literal, ":")
	switch {
	case ok && password == "" || literal == "":
		return text
	case ok && literal == text:
		return name + ":" + inURL
	}
	return inURL
}

// maskArgs masks values of options with secret names, values of headers, random texts, and
// credentials in URLs. A secret that looks like none of these needs a placeholder.
func maskArgs(args []string) []string {
	out := make([]string, len(args))
	var next func(string) string // masks the value of the previous option
	for i, arg := range args {
		name, value, hasValue := strings.Cut(arg, "=")
		option := strings.HasPrefix(arg, "-")
		switch {
		case next != nil && !option:
			out[i] = next(arg)
		case hasValue && secretName(name):
			out[i] = name + "=" + maskText(value)
		case hasValue && headerOption(name):
			out[i] = name + "=" + maskHeader(value)
		case hasValue && option && strings.Contains(value, "://"):
			out[i] = name + "=" + maskURL(value)
		case !option && strings.Contains(arg, "://"):
			out[i] = maskURL(arg)
		case !option && redact.Random(arg):
			out[i] = masked
		default:
			out[i] = arg
		}
		next = nil
		switch {
		case !option || hasValue:
		case headerOption(name):
			next = maskHeader
		case secretName(name):
			next = maskText
		}
	}
	return out
}

// maskHeader masks the value of "Name: value".
func maskHeader(text string) string {
	name, value, ok := strings.Cut(text, ":")
	if !ok || placeholder.MatchString(name) {
		return maskText(text)
	}
	space := value[:len(value)-len(strings.TrimLeft(value, " "))]
	return name + ":" + space + maskText(value[len(space):])
}

func headerOption(name string) bool { return name == "-H" || name == "--header" || name == "--headers" }

// secretName reports whether the name of an option or a variable suggests a secret value.
func secretName(name string) bool {
	name = strings.ReplaceAll(strings.ToUpper(strings.TrimLeft(name, "-")), "-", "_")
	if slices.Contains([]string{"KEY", "PAT", "PW", "PWD", "PASS"}, name) {
		return true
	}
	for _, part := range []string{"TOKEN", "SECRET", "PASSW", "PASSPHRASE", "APIKEY", "_KEY", "CREDENTIAL", "_PAT", "AUTH", "BEARER"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
