package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// InURL returns the secrets that stand in a URL: the password, a user that is a token, random
// segments of the path, and in the query the values that stand under a telling name or are neither
// words nor a number. Each is there as it is and as it is written.
func InURL(text string) []string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil
	}
	var found []string
	add := func(forms ...string) { found = append(found, forms...) }
	if u.User != nil {
		password, has := u.User.Password()
		if has {
			add(password, strings.TrimPrefix(url.UserPassword("", password).String(), ":"))
		}
		if name := u.User.Username(); !has && !Plain(name) || Random(name) {
			add(name)
		}
	}
	for _, segment := range strings.Split(u.EscapedPath(), "/") {
		if plain, err := url.PathUnescape(segment); err == nil && Random(plain) {
			add(plain, segment)
		}
	}
	for _, pair := range strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(value)
		if err != nil {
			plain = value
		}
		if readable, err := url.QueryUnescape(name); err == nil {
			name = readable
		}
		if Telling(name) && !modeWord(plain) || !Plain(plain) {
			add(value)
			add(credential(plain)...)
		}
	}
	return compact(found)
}

// assignment is a value under a name: NAME=value, Name: value, "name": "value".
var assignment = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)["']?\s*[:=]\s*["']?((?i:(?:bearer|basic|token|apikey)\s+)?[^\s"',;&}]+)`)

// InArgs returns the secrets that stand in the arguments of a program: the value of an option with
// a telling name, of a variable or a header with one, random texts, and the secrets that InURL
// finds in their URLs.
func InArgs(args []string) []string {
	var found []string
	for i, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		option := strings.HasPrefix(arg, "-")
		switch {
		case assigned && Telling(strings.TrimLeft(name, "-")) && !strings.ContainsAny(name, " \t"):
			if !harmless(value) {
				found = append(found, credential(value)...)
			}
		case option && Telling(strings.TrimLeft(arg, "-")) && i+1 < len(args):
			if next := args[i+1]; (!strings.HasPrefix(next, "-") || Random(next)) && !harmless(next) {
				found = append(found, credential(next)...)
			}
		case !option && Random(arg):
			found = append(found, arg)
		case option && (i == 0 || !Telling(strings.TrimLeft(args[i-1], "-"))):
			found = append(found, attached(arg)...)
		}
		if option && assigned && Random(value) {
			found = append(found, value)
		}
		for _, word := range strings.Fields(arg) {
			if at := strings.Index(word, "://"); at > 0 {
				from := strings.LastIndexAny(word[:at], "=\"'(<[,") + 1
				found = append(found, InURL(strings.TrimRight(word[from:], "\"')>],"))...)
			}
		}
		for _, m := range assignment.FindAllStringSubmatch(arg, -1) {
			if Telling(m[1]) && !strings.HasPrefix(m[2], "//") && !harmless(m[2]) {
				found = append(found, credential(m[2])...)
			}
		}
		if fields := strings.Fields(arg); len(fields) > 1 {
			for j := range fields {
				fields[j] = strings.Trim(fields[j], `"'`)
			}
			found = append(found, InArgs(fields)...)
		}
	}
	return compact(found)
}

// attached returns the secret that is written right after the letter of an option: -pHunter-2. A
// word could as well be an option with one dash (-profile), so it stays.
func attached(arg string) []string {
	if len(arg) < 3 || arg[1] == '-' {
		return nil
	}
	value := arg[2:]
	name, rest, assigned := strings.Cut(value, "=")
	if assigned && strings.Trim(rest, "=") != "" && (arg[1] != 'p' || Plain(name)) {
		return nil // an option with its value
	}
	if Random(value) || arg[1] == 'p' && !Plain(value) && !fileName.MatchString(value) {
		return []string{value}
	}
	return nil
}

// credential is a value, and without the scheme before it where there is one.
func credential(value string) []string {
	if scheme, rest, ok := strings.Cut(value, " "); ok && schemeWord(scheme) {
		return []string{value, strings.TrimSpace(rest)}
	}
	return []string{value}
}

// harmless reports whether the value of an option with a telling name is none: the
// name of a file, or a word that says how.
func harmless(value string) bool { return modeWord(value) || fileName.MatchString(value) }

// fileName is the name of a file as people write it: with a folder and an extension.
var fileName = regexp.MustCompile(`^(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w./\\ -]*\.[a-z][a-z0-9]{0,9}$`)

func schemeWord(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "token", "apikey", "digest":
		return true
	}
	return false
}

func modeWord(word string) bool {
	switch strings.ToLower(word) {
	case "oauth", "oauth2", "required", "optional", "enabled", "disabled", "default", "prompt", "always", "keyring", "keychain", "environment":
		return true
	}
	return schemeWord(word)
}

// Telling reports whether a parameter, an option, a header or a variable with this
// name holds a secret: its last word says so, and no word says that it is a
// number, is public, or is a key of rows.
func Telling(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool {
		switch w {
		case "max", "min", "num", "count", "limit", "total", "budget", "public", "primary", "foreign", "sort", "partition", "cache":
			return true
		}
		return false
	}) {
		return false
	}
	last := words[len(words)-1]
	switch strings.TrimSuffix(last, "s") {
	case "pas", "pwd", "pat", "auth", "authorization", "sig", "signature", "jwt", "bearer", "cookie", "credential", "passphrase", "dsn":
		return true
	}
	for _, end := range []string{"key", "token", "secret", "password", "passwd"} {
		if strings.HasSuffix(strings.TrimSuffix(last, "s"), end) {
			return true
		}
	}
	return false
}

// wordsOf are the words of a name, in small letters: "tavilyApiKey" has three.
func wordsOf(name string) []string {
	var b strings.Builder
	var before rune
	for _, r := range name {
		switch {
		case r == '-' || r == '_' || r == '.' || r == '[' || r == ']' || r == ' ':
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteRune(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.Fields(b.String())
}

// Plain reports whether a text consists of words, or is a number, a version or a date. A generated
// secret does not look like that, so such a text is secret only if its name says so.
func Plain(text string) bool {
	letters, digits := 0, 0
	for _, r := range text {
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.IsDigit(r):
			digits++
		case !strings.ContainsRune(" -_.,:/+*@", r):
			return len(text) < 8
		}
	}
	return len(text) < 8 || digits == 0 || letters == 0 && digits < 16
}

// Random reports whether a text looks like one that a program made: sixteen letters
// and digits or more that no words and numbers would give, nothing else but dashes
// and the like between them.
func Random(text string) bool {
	var count, lower, upper, digits, vowels, turns int
	camel := true // each capital starts a word
	var before byte
	for i := range len(text) {
		c := text[i]
		var class byte
		switch {
		case 'a' <= c && c <= 'z':
			class = 'a'
			lower++
		case 'A' <= c && c <= 'Z':
			class = 'A'
			upper++
			if i+1 >= len(text) || !isLower(text[i+1]) {
				camel = false
			}
		case '0' <= c && c <= '9':
			class = '0'
			digits++
		case strings.IndexByte("-_.~=+", c) >= 0:
			continue
		default:
			return false
		}
		if strings.IndexByte("aeiouAEIOU", c) >= 0 {
			vowels++
		}
		if before != 0 && class != before && (before != 'A' || class != 'a') {
			turns++
		}
		before = class
		count++
	}
	switch {
	case count < 16:
		return false
	case digits == count:
		return true
	case digits == 0 && (lower == 0 || upper == 0):
		return count >= 20 && 5*vowels < count
	case digits == 0 && camel:
		return false
	}
	return turns >= 3 && 8*turns >= count
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// compact leaves out texts that are too short to be looked for, and repetitions.
func compact(found []string) []string {
	found = slices.DeleteFunc(found, func(s string) bool { return len(s) < MinSecret })
	slices.Sort(found)
	return slices.Compact(found)
}
