package gateway

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
)

// A Missing is an upstream that is configured and of which nothing can be found now:
// it has not been listed, or was taken out after it had been down for long.
type Missing struct {
	Upstream, Namespace string
	// Why is its last error, or what is wrong with its entry; "" while it still
	// starts. It is for agents: it holds no secret.
	Why string
}

// reportsMissing is an optional interface of Upstreams.
type reportsMissing interface {
	// Missing returns the upstreams of which nothing can be found now.
	Missing() []Missing
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
		i := slices.IndexFunc(cards, func(c catalog.Card) bool { return c.Kind == catalog.KindInternal && c.Name == m.Namespace })
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

// outages tells agents which upstreams have nothing to find now.
type outages struct {
	upstreams   Upstreams
	redactor    *result.Redactor
	countTokens func(string) int
}

// missing returns the upstreams of which nothing can be found, by name.
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

// absent is the failure for an id whose upstream has not come up: such an id
// may be right (it survives a restart of weir), and to offer the ids of other
// upstreams instead would be misleading. It is nil for every other id.
func (o outages) absent(id string) *result.Error {
	parts, err := catalog.ParseToolID(id)
	if err != nil {
		return nil
	}
	return o.absentSpace(parts.Namespace)
}

// absentSpace is the failure for what is in the namespace of an upstream that has
// not come up, nil for any other namespace.
func (o outages) absentSpace(namespace string) *result.Error {
	all := o.missing()
	i := slices.IndexFunc(all, func(m Missing) bool { return m.Namespace == namespace })
	if i < 0 {
		return nil
	}
	m := all[i]
	message := fmt.Sprintf("server %q", m.Upstream)
	if m.Namespace != m.Upstream {
		message += fmt.Sprintf(", which has the tools of %q,", m.Namespace)
	}
	message += " has not come up yet"
	if why := m.reason(); why != "" {
		message += ": " + why
	}
	return &result.Error{Code: result.UpstreamUnavailable, Message: message}
}

// reason is Why without the upstream's name, with which what the manager says of one
// begins.
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

// short is the reason in a few words: up to its first semicolon, behind which are the
// fix and a server's own last words, for which weir ls has the room.
func (m Missing) short() string {
	why, _, _ := strings.Cut(m.reason(), ";")
	if strings.HasPrefix(why, "mcpServers.") { // the key helps who edits the file
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

// browseOverhead is how many tokens an answer of a browse has in addition to its cards, which
// have 80 each.
const browseOverhead = 32

// notSearched is the last line of a browse answer: which upstreams were not searched,
// and why, in at most room tokens. It is "" where all were.
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
