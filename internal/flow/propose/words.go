package propose

// Words of names. A word that is in none of the lists makes a tool a sink, and an argument sensitive.
var (
	readVerbs = set("get", "list", "read", "search", "find", "show", "check", "view", "describe", "count", "lookup",
		"query", "fetch", "browse", "inspect", "summarize", "retrieve", "return", "download", "diff", "whoami", "validate", "resolve", "compare", "explain", "convert", "calculate", "compute",
		"analyze", "preview", "export", "is", "has", "ping", "extract", "recall", "grep")
	sendVerbs = set("send", "post", "share", "email", "mail", "message", "publish", "upload", "forward", "reply", "notify",
		"invite", "comment", "tweet", "submit", "push", "announce", "broadcast", "dispatch", "respond", "sms", "call",
		"navigate", "goto", "request", "webhook", "transmit", "sync")
	writeVerbs = set("create", "add", "update", "delete", "remove", "set", "write", "edit", "append", "insert", "move",
		"rename", "copy", "cancel", "schedule", "reschedule", "book", "reserve", "buy", "pay", "order", "purchase",
		"transfer", "refund", "approve", "reject", "merge", "close", "open", "assign", "mark", "archive", "restore", "run",
		"execute", "exec", "start", "stop", "restart", "deploy", "install", "apply", "commit", "revert", "reset", "change",
		"enable", "disable", "grant", "revoke", "ban", "kick", "mute", "pin", "star", "follow", "like", "react", "subscribe",
		"unsubscribe", "accept", "decline", "save", "store", "put", "patch", "replace", "drop", "truncate", "clear",
		"trigger", "fill", "click", "type", "press", "drag", "select", "sign", "import", "generate", "make", "fork")

	urlWords    = set("url", "urls", "uri", "uris", "link", "links", "href", "endpoint", "webhook", "host", "hostname", "domain")
	peopleWords = set("recipient", "recipients", "to", "cc", "bcc", "participant", "participants", "attendee", "attendees",
		"invitee", "invitees", "email", "emails", "guest", "guests")
	textWords = set("body", "content", "contents", "text", "message", "subject", "title", "description", "comment",
		"comments", "note", "notes", "summary", "reason", "caption", "html", "markdown", "memo", "headline", "date", "time",
		"day", "datetime", "start", "end", "due", "deadline", "duration", "timezone", "location", "color", "format",
		"language", "locale", "priority", "recurring")

	clockWords = set("time", "date", "day", "today", "now", "timezone", "clock")
	ownWords   = set("info", "information", "profile", "account", "settings", "preferences", "me", "self", "myself", "identity")
	selfWords  = set("user", "me", "my", "self", "own", "myself", "current", "account")
)

func set(list ...string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, w := range list {
		out[w] = true
	}
	return out
}

// knownServer is a kind of server whose texts have a known origin.
type knownServer struct {
	trusted bool
	why     string
	words   map[string]bool
}

// knownServers are looked for in the name of a server and in its namespace.
var knownServers = []knownServer{
	{false, "anybody writes mail", set("mail", "email", "gmail", "outlook", "imap", "smtp", "inbox", "fastmail", "mailgun", "resend")},
	{false, "anybody in it writes messages", set("slack", "discord", "teams", "telegram", "whatsapp", "signal", "matrix", "mattermost", "zulip", "twilio", "chat")},
	{false, "web pages are written by strangers", set("fetch", "web", "browser", "playwright", "puppeteer", "brave", "tavily", "exa",
		"firecrawl", "crawl", "crawler", "scrape", "scraper", "duckduckgo", "google", "serp", "perplexity", "wikipedia", "rss", "youtube", "reddit", "twitter", "arxiv")},
	{false, "issues and comments are written by strangers", set("github", "gitlab", "gitea", "bitbucket", "jira", "linear", "asana", "trello", "zendesk",
		"intercom", "sentry", "shortcut", "youtrack", "redmine", "freshdesk", "hubspot")},
	{false, "documents are shared by others", set("notion", "confluence", "drive", "gdrive", "dropbox", "sharepoint", "onedrive", "box", "airtable")},
	{true, "it calculates, and reads nothing", set("time", "clock", "calculator", "math", "sequentialthinking", "uuid")},
}

// serverOf returns the kind of the server of a tool, nil if it is not known.
func serverOf(t *Tool) *knownServer {
	for _, name := range []string{t.Server, t.Namespace} {
		for _, w := range words(name) {
			for i := range knownServers {
				if knownServers[i].words[w] {
					return &knownServers[i]
				}
			}
		}
	}
	return nil
}
