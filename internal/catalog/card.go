package catalog

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Budgets of one rendered card in cl100k_base tokens (spec/gateway §2.3).
const (
	cardTarget  = 60 // descriptions are cut so that a card fits this
	cardHardCap = 80 // larger cards are in the refresh report
)

const (
	maxCardName = 64 // characters
	maxCardTags = 5
	maxTagLen   = 24 // characters
	maxTags     = 64 // tags per entry; a card has fewer
)

// Tags about the safety of a tool. Other tags never displace them from a card (spec/gateway §2.1).
const (
	tagReadOnly    = "read-only"
	tagDestructive = "destructive"
)

// Values of Card.Safety.
const (
	safetyReadOnly    = "read_only"
	safetyDestructive = "destructive"
)

// Card is the short form of an entry from which agents choose. It never contains a schema, an
// example or a server's address (spec/gateway §2.2). A card is built and counted once, when its
// definition arrives. Tags is shared and must not be changed.
type Card struct {
	ID          string
	Name        string
	Description string // one line, cut to the budget
	Tags        []string
	Kind        primitive.Kind
	Namespace   string
	HasSchema   bool
	Signature   string // of a tool whose arguments fit: see Entry.signature
	CostHint    float64
	SideEffects bool
	Undeclared  bool // its server does not say whether it has side effects, and its name says that it reads
	Safety      string
	Score       float64 // set by the ranking; in JSON only

	// Tokens is the exact number of cl100k_base tokens of Render.
	Tokens int
}

// Render returns the card as one line for the model:
//
//	id (kind) — description [tag1, tag2] cost=0.30 side-effects
//	id (owner, repo, state?) → rows — description undeclared
//
// A tool with a signature has it in place of its kind.
// It does not include the score, so that equal cards have equal bytes.
func (c *Card) Render() string {
	return string(c.AppendRender(nil))
}

// AppendRender appends the result of Render to dst.
func (c *Card) AppendRender(dst []byte) []byte {
	dst = append(dst, c.ID...)
	if c.Signature != "" {
		dst = append(append(dst, ' '), c.Signature...)
	} else {
		dst = append(dst, " ("...)
		dst = append(dst, c.Kind...)
		dst = append(dst, ')')
	}
	if c.Description != "" {
		dst = append(dst, " — "...)
		dst = append(dst, c.Description...)
	}
	if len(c.Tags) > 0 {
		dst = append(dst, " ["...)
		for i, tag := range c.Tags {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(dst, tag...)
		}
		dst = append(dst, ']')
	}
	if c.CostHint > 0 {
		dst = append(dst, " cost="...)
		dst = strconv.AppendFloat(dst, c.CostHint, 'f', 2, 64)
	}
	switch {
	case c.Undeclared:
		dst = append(dst, " undeclared"...)
	case c.SideEffects:
		dst = append(dst, " side-effects"...)
	}
	return dst
}

// AppendJSON appends the card as a JSON object with its keys in field order. It includes the score
// only if withScore is set.
func (c *Card) AppendJSON(dst []byte, withScore bool) []byte {
	dst = append(dst, `{"id":`...)
	dst = rawjson.AppendString(dst, c.ID)
	dst = append(dst, `,"name":`...)
	dst = rawjson.AppendString(dst, c.Name)
	dst = append(dst, `,"description":`...)
	dst = rawjson.AppendString(dst, c.Description)
	dst = append(dst, `,"tags":[`...)
	for i, tag := range c.Tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = rawjson.AppendString(dst, tag)
	}
	dst = append(dst, `],"kind":`...)
	dst = rawjson.AppendString(dst, string(c.Kind))
	dst = append(dst, `,"namespace":`...)
	dst = rawjson.AppendString(dst, c.Namespace)
	dst = append(dst, `,"has_schema":`...)
	dst = strconv.AppendBool(dst, c.HasSchema)
	if c.Signature != "" {
		dst = append(dst, `,"signature":`...)
		dst = rawjson.AppendString(dst, c.Signature)
	}
	dst = append(dst, `,"cost_hint":`...)
	dst = strconv.AppendFloat(dst, c.CostHint, 'g', -1, 64)
	dst = append(dst, `,"side_effects":`...)
	dst = strconv.AppendBool(dst, c.SideEffects)
	if c.Undeclared {
		dst = append(dst, `,"undeclared":true`...)
	}
	dst = append(dst, `,"safety":`...)
	dst = rawjson.AppendString(dst, c.Safety)
	if withScore {
		dst = append(dst, `,"score":`...)
		// Exact, so that the order of cards agrees with their scores, which are float32.
		dst = strconv.AppendFloat(dst, c.Score, 'g', -1, 32)
	}
	return append(dst, '}')
}

// fit sets the description, cut so that the card fits cardTarget, and counts
// the card. Nothing but the description is ever cut (spec/gateway §2.3).
func (c *Card) fit(description string) {
	c.Description = collapse(description)
	buf := make([]byte, 0, 512)
	count := func() int { return token.CountBytes(c.AppendRender(buf)) }

	if c.Tokens = count(); c.Tokens <= cardTarget || c.Description == "" {
		return
	}
	whole := c.Description
	c.Description = ""
	// The whole card may have more or fewer tokens than its parts, so lower the budget until it
	// fits.
	for budget := cardTarget - count(); budget > 0; budget-- {
		c.Description = token.Truncate(whole, budget)
		if c.Tokens = count(); c.Tokens <= cardTarget {
			// Do not retain the whole text for a slice of it.
			c.Description = strings.Clone(c.Description)
			return
		}
	}
	c.Description = ""
	c.Tokens = count()
}

// Noted returns the card with a note before its description, within the same budget.
func (c Card) Noted(note string) Card {
	c.fit(note + "; " + c.Description)
	return c
}

// collapse returns a text as one line: it replaces runs of white space and control characters by
// one space, trims the ends and removes invisible characters.
func collapse(s string) string {
	line := oneLine(s)
	if seen := visible.Text(line); seen != line {
		return oneLine(seen)
	}
	return line
}

func oneLine(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == ' ' && (i == 0 || s[i-1] == ' ' || i == len(s)-1) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// cleanTags returns tags in the form of entries: one line each, without brackets and commas (they
// separate tags on a card), sorted and distinct. It drops tags that contain an address or JSON
// (spec/gateway §2.2).
func cleanTags(tags []string) (clean []string, dropped int) {
	for _, tag := range tags {
		tag = strings.Map(func(r rune) rune {
			if r == ',' || r == '[' || r == ']' {
				return ' '
			}
			return r
		}, tag)
		tag = collapse(tag)
		switch {
		case tag == "":
		case strings.Contains(tag, "://"), strings.ContainsAny(tag, "{}"):
			dropped++
		default:
			clean = append(clean, tag)
		}
	}
	slices.Sort(clean)
	clean = slices.Compact(clean)
	if len(clean) > maxTags {
		dropped += len(clean) - maxTags
		clean = clean[:maxTags]
	}
	return clean, dropped
}

// cardTags selects the tags of a card: at most maxCardTags, each cut to maxTagLen, safety tags
// first.
func cardTags(tags []string) []string {
	var kept []string
	for _, tag := range tags {
		if tag == tagReadOnly || tag == tagDestructive {
			kept = append(kept, tag)
		}
	}
	for _, tag := range tags {
		if len(kept) >= maxCardTags {
			break
		}
		if tag = strings.TrimSpace(text.Cut(tag, maxTagLen)); !slices.Contains(kept, tag) {
			kept = append(kept, tag)
		}
	}
	slices.Sort(kept)
	return kept
}

// safetyOf returns the safety class of the tags; destructive wins.
func safetyOf(tags []string) string {
	switch {
	case slices.Contains(tags, tagDestructive):
		return safetyDestructive
	case slices.Contains(tags, tagReadOnly):
		return safetyReadOnly
	}
	return ""
}
