package flow

import (
	"maps"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
)

// known are servers whose texts are of strangers: packages, images and hosts, by the kind of what they read.
var known = table(map[string]string{
	"fetch": `mcp-server-fetch fetch-mcp mcp-fetch fetcher-mcp server-fetch mcp/fetch remote.mcpservers.org`,
	"web": `@playwright/mcp mcp/playwright playwright-mcp mcp-playwright playwright-mcp-server server-puppeteer mcp/puppeteer
		chrome-devtools-mcp mcp-server-browserbase server-brave-search brave-search-mcp-server tavily-mcp exa-mcp-server firecrawl-mcp
		duckduckgo-mcp-server server-perplexity-ask kagimcp mcp.exa.ai mcp.tavily.com mcp.firecrawl.dev`,
	"issue tracker": `server-github github-mcp-server server-gitlab mcp-atlassian mcp-jira linear-mcp-server mcp-server-sentry
		sentry-mcp-server api.githubcopilot.com mcp.atlassian.com mcp.linear.app mcp.sentry.dev mcp.asana.com`,
	"mail": `server-gmail-autoauth-mcp mcp-gmail gmail-mcp gmail-mcp-server mcp-email-server mcp-mail-server ms-365-mcp-server
		workspace-mcp mcp.intercom.com`,
	"chat": `server-slack slack-mcp-server mcp-discord discord-mcp telegram-mcp whatsapp-mcp mcp.slack.com`,
})

func table(kinds map[string]string) map[string]string {
	out := map[string]string{}
	for kind, names := range maps.All(kinds) {
		for name := range strings.FieldsSeq(names) {
			out[name] = kind
		}
	}
	return out
}

// knownServer returns the kind of what a server reads, "" for a server that is not known.
func knownServer(s *mcpserver.Server) string {
	if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
		return known[strings.ToLower(u.Hostname())]
	}
	if kind := known[packageOf(baseOf(s.Command))]; kind != "" {
		return kind
	}
	for _, arg := range s.Args {
		if strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "~") {
			continue // an option, or a file that the server works with
		}
		name := packageOf(arg)
		if kind := known[name]; kind != "" {
			return kind
		}
		if kind := known[baseOf(name)]; kind != "" {
			return kind
		}
	}
	return ""
}

// packageOf returns the name of a package or an image without its version or tag.
func packageOf(arg string) string {
	from := strings.LastIndexAny(arg, `/\`) + 1
	if i := strings.IndexAny(arg[from:], "@:="); i > 0 {
		arg = arg[:from+i]
	}
	return strings.ToLower(arg)
}

// baseOf returns the name of a program or a package without its folder or scope.
func baseOf(name string) string {
	return strings.TrimSuffix(name[strings.LastIndexAny(name, `/\`)+1:], ".exe")
}
