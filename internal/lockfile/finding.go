package lockfile

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// FindingKind is the kind of a finding.
type FindingKind string

// The kinds of findings.
const (
	foundHint        FindingKind = "hint_changed"        // from which a client judges the safety of a tool
	foundDescription FindingKind = "description_changed" // texts that a model reads
	foundURL         FindingKind = "url_changed"         // an address that was not there before
	foundShadowing   FindingKind = "shadowing"           // the text names a tool of another server
	foundHidden      FindingKind = "hidden_text"         // characters that people do not see
	foundTwice       FindingKind = "duplicate_member"    // readers may take either value
)

// A Finding is one fact about a definition that an operator should know before accepting it.
type Finding struct {
	Kind    FindingKind `json:"kind"`
	Message string      `json:"message"`
}

// maxFindings bounds the findings of one definition.
const maxFindings = 20

// A Neighbour is a tool of another server, which a text may name.
type Neighbour struct {
	Server, ID, Name string
}

// judge adds the findings to a difference. raw is the definition now, before the one in the lock.
func (d *Difference) judge(raw []byte, before []byte, names neighbours) {
	add := func(kind FindingKind, format string, args ...any) {
		if len(d.Findings) < maxFindings {
			d.Findings = append(d.Findings, Finding{kind, fmt.Sprintf(format, args...)})
		}
	}
	for _, m := range d.Members {
		last := m.Path[strings.LastIndexByte(m.Path, '.')+1:]
		switch {
		case d.Change == catalog.EntryRemoved:
		case strings.HasSuffix(m.Path, "(again)"):
			add(foundTwice, "%s is there twice, and readers may take either value", strings.TrimSuffix(m.Path, " (again)"))
		case d.Notice && (m.Path == "url" || m.Path == "command"):
			add(foundURL, "the server runs elsewhere: %s → %s", cmp.Or(m.Before, "none"), cmp.Or(m.After, "none"))
		case d.Change == catalog.EntryChanged && strings.HasPrefix(m.Path, "annotations.") && strings.HasSuffix(m.Path, "Hint"):
			add(foundHint, "%s: %s → %s%s", last, cmp.Or(m.Before, "absent"), cmp.Or(m.After, "absent"), graver(last, m.After))
		case d.Change == catalog.EntryChanged && !d.Notice && (last == "description" || last == "title" || last == "instructions"):
			add(foundDescription, "models read another %s", m.Path)
		}
	}
	if d.Change == catalog.EntryRemoved || raw == nil {
		return
	}
	text := strings.Join(texts(raw), "\n")
	if kinds := visible.Find(text); kinds != 0 {
		add(foundHidden, "it holds %s: models read what people do not see", kinds)
	}
	if d.Change == catalog.EntryChanged {
		old := strings.Join(texts(before), "\n")
		for _, address := range addresses(text) {
			if !strings.Contains(old, address) {
				add(foundURL, "a new address: %s", cut(string(visible.JSON(rawjson.Quote(address))), 200))
			}
		}
	}
	for _, n := range names.in(text, d.Server) {
		add(foundShadowing, "it names %s, a tool of server %q: a text about another server's tool can redirect its calls", shownName(cmp.Or(n.ID, n.Name)), n.Server)
	}
}

// graver describes a changed hint that makes a tool look safer or less safe.
func graver(hint, after string) string {
	switch {
	case hint == "readOnlyHint" && after != "true":
		return ": it may change things now"
	case hint == "readOnlyHint":
		return ": it says that it changes nothing, and clients may ask no person"
	case hint == "destructiveHint" && after != "false":
		return ": it may destroy things now"
	case hint == "destructiveHint":
		return ": it says that it destroys nothing, and clients may ask no person"
	case hint == "openWorldHint" && after != "false":
		return ": it may reach outside now"
	}
	return ""
}

// texts returns all strings of a JSON value, keys included.
func texts(raw []byte) (all []string) {
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		end, err := rawjson.Skip(raw, i+n)
		if err != nil {
			break // definitions are valid JSON
		}
		all = append(all, rawjson.Text(raw[i+n:end]))
		i = end
	}
	return all
}

var address = lazy.Pattern(`(?i)\b(?:https?|wss?|ftp|data|file):/{0,2}[^\s"'<>()\[\]{}]{3,300}`)

// addresses returns the URLs in a text, without duplicates.
func addresses(text string) []string {
	found := address().FindAllString(text, 4*maxFindings)
	slices.Sort(found)
	return slices.Compact(found)
}

// neighbours are the tools of all servers by the words that name them.
type neighbours map[string][]Neighbour

// newNeighbours returns the tools that a text can name unmistakably. A name that is a common word,
// such as "search", would be found everywhere.
func newNeighbours(all []Neighbour) neighbours {
	n := neighbours{}
	for _, one := range all {
		if one.ID != "" {
			n[one.ID] = append(n[one.ID], one)
		}
		if distinctive(one.Name) {
			n[one.Name] = append(n[one.Name], one)
		}
	}
	return n
}

// distinctive reports whether a name is more than a word: parts joined by punctuation, or by capital
// letters.
func distinctive(name string) bool {
	if len(name) < 6 {
		return false
	}
	lower := false
	for i, r := range name {
		switch {
		case strings.ContainsRune("_-./:", r) && i > 0 && i < len(name)-1:
			return true
		case unicode.IsUpper(r) && lower:
			return true
		}
		lower = unicode.IsLower(r)
	}
	return false
}

// in returns the tools of other servers that a text names. A name that the server's own tools have as
// well is not another server's.
func (n neighbours) in(text, server string) []Neighbour {
	found := map[string]Neighbour{}
	for _, word := range strings.FieldsFunc(visible.Text(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:@#", r)
	}) {
		for _, form := range []string{word, strings.Trim(word, "-./:@#")} {
			named := n[form]
			if len(named) > 0 && !slices.ContainsFunc(named, func(one Neighbour) bool { return one.Server == server }) {
				found[form] = named[0]
			}
		}
	}
	var all []Neighbour
	for _, form := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[form])
	}
	return slices.Compact(all)
}
