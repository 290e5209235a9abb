package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// Guards are checks of messages from servers and to servers.
type Guards struct {
	Secrets SecretsGuard `key:"secrets" doc:"Secrets in what agents send to servers."`
	Hooks   []Hook       `key:"hooks" empty:"same" doc:"URLs and programs that decide in order about calls, or about results before an agent reads them. All have to allow."`
	Unicode UnicodeGuard `key:"unicode" default:"flag" enum:"flag,strip,refuse" doc:"What happens to text of servers that people do not see, such as Unicode tags, bidirectional controls and escape sequences. flag: in definitions it is a finding of /catalog, and left out of what models read at /mcp. strip: it is left out of titles and descriptions at /mcps/NAME/mcp, too, and of all that servers answer, ask and tell, at every path. refuse: nothing that is defined with it runs, and an answer in which it can carry words is withheld."`
}

// UnicodeGuard is the treatment of invisible text in definitions and answers.
type UnicodeGuard string

// What happens to it.
const (
	UnicodeFlag   UnicodeGuard = "flag"
	UnicodeStrip  UnicodeGuard = "strip"
	UnicodeRefuse UnicodeGuard = "refuse"
)

// SecretsGuard is the treatment of secrets in the arguments of calls.
type SecretsGuard struct {
	Args SecretsInArgs `key:"args" default:"pass" enum:"pass,deny" doc:"What happens to a call in whose arguments, URI or _meta a credential of the configuration or of a sign-in stands, or a text with the form of a key or token, also in base64, in JSON in a text, or split over several texts. deny: it is refused, on every URL."`
}

// SecretsInArgs is the treatment of secrets in arguments.
type SecretsInArgs string

// What happens to them.
const (
	SecretsPass SecretsInArgs = "pass"
	SecretsDeny SecretsInArgs = "deny"
)

// Hook is asked about calls and results. It has a URL or a command.
type Hook struct {
	Name    string            `key:"name" doc:"What errors and the audit log call the hook, as guards.hooks.NAME. Default: its place."`
	On      []string          `key:"on" empty:"refused" doc:"What the hook is asked about: call, result or both. Default: both."`
	URL     string            `key:"url" doc:"Where questions are sent by POST, as JSON. http works for addresses that are not public. Redirects are failures."`
	Headers map[string]Secret `key:"headers" doc:"HTTP headers of questions, best with ${VAR} where they are a key."`
	Command []string          `key:"command" empty:"same" doc:"A program and its arguments, started for each question. It reads the question on standard input and writes the answer. A relative path with a separator is looked up next to this file. The program gets the environment that servers inherit, and no credentials."`
	Timeout time.Duration     `key:"timeout" default:"2s" min:"10ms" max:"1m" doc:"How long an answer may take. Past it, the hook has failed."`
	Failure HookFailure       `key:"failure" enum:"deny,allow" doc:"What happens where the hook has failed: it is late, its HTTP status is not 200, its program does not exit with 0, its answer is not one, or the question has more than 1 MB. It must be set."`
}

// HookFailure is the decision in place of a hook that failed.
type HookFailure string

// The decisions.
const (
	HookDeny  HookFailure = "deny"
	HookAllow HookFailure = "allow"
)

// The messages that hooks are asked about.
const (
	OnCall   = "call"
	OnResult = "result"
)

// maxHooks bounds the hooks: each of them makes every call wait.
const maxHooks = 16

// Place returns the name of the hook at an index, for errors and records.
func (h *Hook) Place(i int) string {
	if h.Name != "" {
		return "guards.hooks." + h.Name
	}
	return "guards.hooks[" + strconv.Itoa(i) + "]"
}

func checkHooks(d *decoder, c *Config) {
	const list = "guards.hooks"
	hooks := c.Guards.Hooks
	if len(hooks) > maxHooks {
		d.Fail(d.At(list), list, "%s has more than %d hooks", list, maxHooks)
	}
	names := map[string]bool{}
	for i := range hooks {
		h := &hooks[i]
		path := list + "[" + strconv.Itoa(i) + "]"
		at := d.At(path)
		if h.Failure == "" && !d.Set(strict.Join(path, "failure")) {
			d.Fail(at, path, "%s has no failure; write deny or allow: what happens while the hook does not answer", path)
		}
		key := strict.Join(path, "name")
		switch {
		case h.Name == "":
		case !hookName(h.Name):
			d.Fail(d.At(key), key, "%s must be 1 to 40 letters, digits, - and _", key)
		case names[h.Name]:
			d.Fail(d.At(key), key, "%s: another hook is called %q", key, h.Name)
		}
		names[h.Name] = true
		checkOn(d.Decoder, h, strict.Join(path, "on"))
		switch hasURL, hasCommand := d.Set(strict.Join(path, "url")), d.Set(strict.Join(path, "command")); {
		case hasURL == hasCommand:
			d.Fail(at, path, "%s needs either url or command", path)
		case hasURL:
			checkHookURL(d, h, path)
		default:
			checkHookCommand(d, h, path)
		}
	}
}

// checkOn makes of no list both kinds.
func checkOn(d *strict.Decoder, h *Hook, key string) {
	if !d.Set(key) {
		h.On = []string{OnCall, OnResult}
		return
	}
	for _, kind := range h.On {
		if kind != OnCall && kind != OnResult {
			d.Fail(d.At(key), key, "%s: %q is neither call nor result", key, strict.Clip(kind))
		}
	}
}

func checkHookURL(d *decoder, h *Hook, path string) {
	key := strict.Join(path, "url")
	d.CheckHeaders(h.Headers, path, Secret.Reveal)
	d.expand.hidden.url(h.URL)
	if d.Bad(key) {
		return
	}
	u := d.CheckURL(h.URL, key)
	if u == nil {
		return
	}
	switch ip, known := address.ParseIP(u.Hostname()); {
	case u.User != nil:
		d.Fail(d.At(key), key, "%s must have no user or password; use %s.headers: {Authorization: ${VAR}}", key, path)
	case u.Fragment != "":
		d.Fail(d.At(key), key, "%s must have no fragment", key)
	case u.Scheme == "http" && known && !address.Private(ip):
		d.Fail(d.At(key), key, "%s leads to the public address %s without TLS; use https", key, ip)
	}
}

func checkHookCommand(d *decoder, h *Hook, path string) {
	key := strict.Join(path, "command")
	for _, secret := range redact.InArgs(h.Command) {
		d.expand.hidden.add(secret, true)
	}
	if headers := strict.Join(path, "headers"); d.Set(headers) {
		d.Fail(d.At(headers), headers, "%s has no effect without %s.url", headers, path)
	}
	switch {
	case d.Bad(key):
	case len(h.Command) == 0 || h.Command[0] == "":
		d.Fail(d.At(key), key, "%s is empty; give a program and its arguments", key)
	case slices.ContainsFunc(h.Command, func(s string) bool { return strings.ContainsRune(s, 0) }):
		d.Fail(d.At(key), key, "%s holds a control character", key)
	case strings.ContainsRune(h.Command[0], filepath.Separator) && !filepath.IsAbs(h.Command[0]) && d.dir != "":
		h.Command[0] = filepath.Join(d.dir, h.Command[0])
	}
}

func hookName(name string) bool {
	return len(name) <= 40 && !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	})
}
