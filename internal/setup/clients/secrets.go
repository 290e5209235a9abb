package clients

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// Secret is a value of a client's file that must not be in weir.yaml.
type Secret struct {
	Name  string // unique within the plan
	Value string
	Where []string // places such as github.env.GITHUB_TOKEN
}

// Reference returns the text that stands for the secret in weir.yaml.
func (s Secret) Reference() string { return "${secret:" + s.Name + "}" }

// Inline returns the value itself, as weir.yaml writes it.
func (s Secret) Inline() string { return escape(s.Value) }

// String returns a form that the owner recognises and that reveals nothing to others: ghp_…Ab3d
// (40).
func (s Secret) String() string {
	n := utf8.RuneCountInString(s.Value)
	runes := []rune(s.Value)
	if n < 16 {
		return "… (" + strconv.Itoa(n) + ")"
	}
	return string(runes[:4]) + "…" + string(runes[n-4:]) + " (" + strconv.Itoa(n) + ")"
}

var (
	// tellingName finds names of variables, headers and options that hold a secret.
	tellingName = lazy.Pattern(`(?i)TOKEN|SECRET|PASSWORD|PASSWD|API[-_]?KEY|[-_]KEY$|[-_]PAT$|^PAT$|AUTH([^O]|$)|AUTHORIZATION|CREDENTIAL|DSN|COOKIE`)
	// prefix finds values that their makers have marked as secrets.
	prefix = lazy.Pattern(`(?:^|[\s=:,"'])(ghp_|gho_|ghs_|github_pat_|sk-|xox[a-z]-|AKIA|AIza|glpat-|hf_|npm_|eyJ|-----BEGIN)`)
	// harmless matches values that are modes or places, not secrets.
	harmless = lazy.Pattern(`(?i)^(|true|false|yes|no|on|off|none|null|oauth2?|bearer|basic|token|required|optional|enabled|disabled|[0-9]{1,6}|(~|\.{1,2}|[a-z]:)?[/\\].*)$`)
	// scheme matches the word before the secret in a header.
	scheme = lazy.Pattern(`(?i)^(bearer|basic|token|apikey|bot)\s+`)
	// illegal matches characters that the name of a secret must not have.
	illegal = lazy.Pattern(`[^A-Z0-9]+`)
)

// conceal replaces the secrets of the plan's servers by references.
func (p *Plan) conceal() {
	for i := range p.Servers {
		s := &p.Servers[i]
		f := &concealer{plan: p, server: s.Name}
		c := &s.Server
		c.Env, c.Headers, c.Args = maps.Clone(c.Env), maps.Clone(c.Headers), slices.Clone(c.Args)
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			c.Env[name] = f.value(name, "env."+name, c.Env[name])
		}
		for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
			c.Headers[name] = f.value(s.Name+"_"+name, "headers."+name, c.Headers[name])
		}
		f.arguments(c.Args)
		c.URL = f.url(s.Name+"_URL", "url", c.URL)
	}
}

// concealer replaces the secrets of one server by references.
type concealer struct {
	plan   *Plan
	server string
}

// value replaces the value of a variable or header, or the secret in it.
func (f *concealer) value(name, where, text string) string {
	telling := tellingName().MatchString(where) && !strings.Contains(strings.ToUpper(where), "MAX_TOKENS")
	if hasVariable(text) {
		m := split(text)
		return f.around(name, where, m, m.valued(0, telling))
	}
	if strings.Contains(text, "://") && !prefix().MatchString(text) {
		return f.within(name, where, text, redact.InURL(text))
	}
	before := scheme().FindString(text)
	bare := text[len(before):]
	if harmless().MatchString(strings.TrimSpace(bare)) || !telling && !prefix().MatchString(text) {
		return text
	}
	return before + f.secret(name, where, unescape(bare))
}

// url replaces the secrets in a URL.
func (f *concealer) url(name, where, text string) string {
	if hasVariable(text) {
		m := split(text)
		return f.around(name, where, m, append(m.shaped(), m.where(redact.InURL(m.flat))...))
	}
	return f.within(name, where, text, redact.InURL(text))
}

// arguments replaces the secrets in a program's arguments.
func (f *concealer) arguments(args []string) {
	flat := slices.Clone(args)
	for i, arg := range args {
		if hasVariable(arg) {
			flat[i] = split(arg).flat
		}
	}
	found := redact.InArgs(flat)
	for i, arg := range args {
		where := "args[" + strconv.Itoa(i) + "]"
		if hasVariable(arg) {
			option := ""
			if i > 0 {
				option = flat[i-1]
			}
			args[i] = f.argument(where, option, arg, found)
			continue
		}
		option, value, joined := strings.Cut(arg, "=")
		switch {
		case joined && tellingName().MatchString(option) && !strings.ContainsAny(option, " \t:/") && !harmless().MatchString(value):
			args[i] = option + "=" + f.value(f.server+"_"+option, where+"."+option, value)
		case i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && tellingName().MatchString(args[i-1]) && !strings.HasPrefix(arg, "-"):
			args[i] = f.value(f.server+"_"+args[i-1], where+"."+args[i-1], arg)
		case prefix().MatchString(arg) && !strings.ContainsAny(arg, " \t"):
			args[i] = f.within(f.server+"_ARG", where, arg, []string{arg[prefix().FindStringSubmatchIndex(arg)[2]:]})
		default:
			args[i] = f.within(f.server+"_ARG", where, arg, found)
		}
	}
}

// within replaces the secrets that stand in a text, the longest first.
func (f *concealer) within(name, where, text string, secrets []string) string {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		secret = scheme().ReplaceAllString(secret, "")
		if secret == "" || !strings.Contains(text, secret) || slices.Contains(pairs, secret) {
			continue
		}
		key := name
		if at := strings.Index(text, "="+secret); at >= 0 {
			start := strings.LastIndexAny(text[:at], "?&; ") + 1
			if word, err := url.QueryUnescape(text[start:at]); err == nil && len(word) < 40 {
				key = name + "_" + word
			}
		}
		pairs = append(pairs, secret, f.secret(key, where, unescape(secret)))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// secret notes a value and returns its reference. A value that is there already keeps its name.
func (f *concealer) secret(name, where, value string) string {
	where = f.server + "." + where
	for i := range f.plan.Secrets {
		if s := &f.plan.Secrets[i]; s.Value == value {
			if !slices.Contains(s.Where, where) {
				s.Where = append(s.Where, where)
			}
			return s.Reference()
		}
	}
	name = strings.Trim(illegal().ReplaceAllString(strings.ToUpper(name), "_"), "_")
	own := strings.Trim(illegal().ReplaceAllString(strings.ToUpper(f.server), "_"), "_")
	unique := name
	for n := 1; slices.ContainsFunc(f.plan.Secrets, func(s Secret) bool { return s.Name == unique }); n++ {
		unique = own + "_" + name
		if n > 1 {
			unique += "_" + strconv.Itoa(n)
		}
	}
	s := Secret{Name: unique, Value: value, Where: []string{where}}
	f.plan.Secrets = append(f.plan.Secrets, s)
	return s.Reference()
}
