package metatool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/result"
)

// Missing is a configured upstream whose tools cannot be found now: it has not been listed yet, or
// was removed after a long outage.
type Missing struct {
	Upstream, Namespace string
	// Why is its last error, or the fault of its configuration; "" while it starts. It is shown to
	// agents and holds no secret.
	Why string
}

// reportsMissing is an optional interface of Upstreams.
type reportsMissing interface {
	// Missing returns the upstreams whose tools cannot be found now.
	Missing() []Missing
}

// reportsOwn is an optional interface of Upstreams.
type reportsOwn interface {
	// MissingOwn returns what agents hear of servers whose lists for the caller are not known. Missing
	// does not return such servers.
	MissingOwn(servers []string) []Missing
}

// reportsDown is an optional interface of Upstreams.
type reportsDown interface {
	// Down returns the upstreams whose entries are found although calls to them fail now.
	Down() []Missing
}

// markDown says on the cards of namespaces that their upstreams are down, and why. It replaces
// elements of cards.
func (o outages) markDown(cards []catalog.Card) {
	known, ok := o.upstreams.(reportsDown)
	if !ok {
		return
	}
	for _, m := range known.Down() {
		i := slices.IndexFunc(cards, func(c catalog.Card) bool { return c.Kind == primitive.KindInternal && c.Name == m.Namespace })
		if i < 0 {
			continue
		}
		m.Why = o.redactor.Redact(m.Why)
		note := "down"
		if m.Upstream != m.Namespace {
			note = "server " + m.Upstream + " is down"
		}
		if m.reason() != "" {
			note += " (" + m.short() + ")"
		}
		cards[i] = cards[i].Noted(note)
	}
}

// outages tells agents which upstreams cannot be searched now.
type outages struct {
	upstreams   Upstreams
	redactor    *result.Redactor
	countTokens func(string) int
}

// missing returns the missing upstreams, sorted by name.
func (o outages) missing() []Missing {
	known, ok := o.upstreams.(reportsMissing)
	if !ok {
		return nil
	}
	all := known.Missing()
	for i := range all {
		all[i].Why = o.redactor.Redact(all[i].Why)
	}
	slices.SortFunc(all, func(a, b Missing) int { return strings.Compare(a.Upstream, b.Upstream) })
	return all
}

// absent returns the error for an id whose upstream is missing. Such an id may be valid, because
// ids survive a restart of weir; suggesting ids of other upstreams would mislead. It returns nil
// for all other ids.
func (o outages) absent(id string) *result.Error {
	parts, err := catalog.ParseToolID(id)
	if err != nil {
		return nil
	}
	return o.absentSpace(func(namespace string) bool { return namespace == parts.Namespace })
}

// absentSpace returns the error for the first missing upstream whose namespace is the one that is looked for, and
// nil if there is none.
func (o outages) absentSpace(is func(namespace string) bool) *result.Error {
	all := o.missing()
	i := slices.IndexFunc(all, func(m Missing) bool { return is(m.Namespace) })
	if i < 0 {
		return nil
	}
	m := all[i]
	message := fmt.Sprintf("server %q", m.Upstream)
	if m.Namespace != m.Upstream {
		message += fmt.Sprintf(", which has the tools of %q,", m.Namespace)
	}
	message += " has not come up yet: " + cmp.Or(m.reason(), "it is still starting; try again in a few seconds")
	return &result.Error{Code: result.UpstreamUnavailable, Message: message}
}

// reason returns Why without the upstream's name, which the manager puts first.
func (m Missing) reason() string {
	why := m.Why
	if rest, named := strings.CutPrefix(why, fmt.Sprintf("upstream %q", m.Upstream)); named {
		why = strings.TrimPrefix(rest, ": ")
		if why != "" && why[0] == ' ' {
			why = "it" + why
		}
	}
	return why
}

// maxReason bounds the characters of a reason in the line of a browse answer.
const maxReason = 60

// short returns the reason up to its first semicolon. The fix and the server's last words follow
// it; weir ls shows them.
func (m Missing) short() string {
	why, _, _ := strings.Cut(m.reason(), ";")
	if strings.HasPrefix(why, "mcpServers.") { // the key is for the operator
		if _, rest, found := strings.Cut(why, ": "); found {
			why = rest
		}
	}
	why = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' {
			return ' '
		}
		return r
	}, strings.TrimSpace(strings.TrimPrefix(why, "it ")))
	if why == "" {
		return "still starting"
	}
	if runes := []rune(why); len(runes) > maxReason {
		return strings.TrimSpace(string(runes[:maxReason-1])) + "…"
	}
	return why
}

// browseOverhead is the number of tokens in a browse answer outside its cards. A card has up to 80.
const browseOverhead = 32

// notSearched returns the last line of a browse answer: the upstreams that were not searched, with
// the reasons, in at most room tokens. It is "" if all were searched.
//
//	not searched: github (its host name has no address), web (still starting)
//	not searched: github (its host name has no address), 7 more (weir ls)
//	not searched: 8 servers (weir ls)
func (o outages) notSearched(room int) string {
	all := o.missing()
	if len(all) == 0 {
		return ""
	}
	parts := make([]string, min(len(all), 4))
	for i := range parts {
		parts[i] = all[i].Upstream + " (" + all[i].short() + ")"
	}
	for n := len(parts); n > 0; n-- {
		line := "not searched: " + strings.Join(parts[:n], ", ")
		if more := len(all) - n; more > 0 {
			line += fmt.Sprintf(", %d more (weir ls)", more)
		}
		if o.countTokens(line) <= room {
			return line
		}
	}
	return fmt.Sprintf("not searched: %d servers (weir ls)", len(all))
}
