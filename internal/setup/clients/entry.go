package clients

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// How is the way in which clients reach weir.
type How struct {
	// URL is the gateway's /mcp. It is written for clients that can use it; "" for none of them.
	// Recognising weir's entry needs it in any case where entries may have it: see Known.
	URL string

	// Known are further URLs of the gateway: earlier ones, or one that must not be written.
	Known []string

	// Command starts weir: its absolute path, or npx -y weir-mcp. attach --client ID is added.
	Command []string

	// Config is the configuration of the started weir; "" for the one that it finds.
	Config string

	// Profile is the part of the catalog that clients get; "" is all of it. With nil an entry of weir
	// that is there keeps its profile, and a new one has the whole catalog.
	Profile *string

	// Windows writes commands so that Windows can start them.
	Windows bool
}

// IsOurs reports whether an entry is weir itself or one of its profiles, by its command or its URL. The
// name of the entry does not count.
func (h How) IsOurs(s Server) bool {
	_, ok := h.profileAt(s.URL)
	return s.Ours || ok
}

// profileAt returns the profile whose URL a text is, "" for the URL of the whole catalog. ok is false
// for a URL that is none of the gateway's.
func (h How) profileAt(text string) (profile string, ok bool) {
	if text == "" {
		return "", false
	}
	at := address(text)
	for _, own := range append([]string{h.URL}, h.Known...) {
		if own == "" {
			continue
		}
		rest, ok := strings.CutPrefix(at, address(own))
		if ok && rest == "" {
			return "", true
		}
		if name, ok := strings.CutPrefix(rest, "/"); ok && strings.HasSuffix(address(own), "/mcp") && !strings.Contains(name, "/") {
			return name, true
		}
	}
	return "", false
}

// profileOf returns the profile of an entry of weir, "" for the whole catalog.
func (h How) profileOf(s Server) string {
	if s.URL != "" {
		profile, _ := h.profileAt(s.URL)
		return profile
	}
	for i, arg := range s.Args {
		if value, ok := strings.CutPrefix(arg, "--profile="); ok {
			return value
		}
		if arg == "--profile" && i+1 < len(s.Args) {
			return s.Args[i+1]
		}
	}
	return ""
}

// url returns the URL to write: the URL of the profile, if there is one.
func (h How) url() string {
	if h.Profile == nil || *h.Profile == "" {
		return h.URL
	}
	u, err := url.Parse(h.URL)
	if err != nil {
		return h.URL
	}
	return u.JoinPath(url.PathEscape(*h.Profile)).String()
}

// address returns a URL in a form to compare. All names of this machine become one, and a slash at
// the end does not count.
func address(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		host = "localhost"
	}
	return host + ":" + port + strings.TrimRight(u.Path, "/")
}

// Entry returns weir's entry as the client writes it. It has the URL if h has one and the client
// can use it, else the command of weir attach, which holds no secret.
func (c *Client) Entry(h How) splice.Object {
	f := c.form
	var out splice.Object
	if f.url != "" && h.URL != "" {
		out = append(out, f.http...)
		out = append(out, splice.Member{Key: f.url, Value: h.url()})
		return append(out, f.more...)
	}
	argv := append(startable(h), "attach", "--client", c.ID)
	if h.Config != "" {
		argv = append(argv, "--config", h.Config)
	}
	if h.Profile != nil && *h.Profile != "" {
		argv = append(argv, "--profile", *h.Profile)
	}
	if c.vars == shell {
		for i, text := range argv {
			argv[i] = shellEscape(text)
		}
	}
	out = append(out, f.stdio...)
	command := f.command
	if command == "" {
		command = "command"
	}
	if f.argv {
		out = append(out, splice.Member{Key: command, Value: argv})
	} else {
		out = append(out, splice.Member{Key: command, Value: argv[0]}, splice.Member{Key: "args", Value: argv[1:]})
	}
	return append(out, f.extra...)
}

// startable returns the command of weir. On Windows, npx and other scripts need cmd /c.
func startable(h How) []string {
	argv := slices.Clone(h.Command)
	if len(argv) == 0 {
		argv = []string{"weir"}
	}
	lower := strings.ToLower(argv[0])
	script := strings.HasSuffix(lower, ".cmd") || strings.HasSuffix(lower, ".bat") || !strings.HasSuffix(lower, ".exe") && slices.Contains([]string{"npx", "bunx", "pnpm", "yarn", "npm"}, base(lower))
	if h.Windows && script {
		return append([]string{"cmd", "/c"}, argv...)
	}
	return argv
}

// shellEscape escapes the characters of a text that a shell would expand.
func shellEscape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(text)
}
