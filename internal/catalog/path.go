package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Children returns the cards at a path of tools, sorted by id (spec/gateway §3). "/" lists the
// namespaces, a namespace or cluster lists its content, and a tool lists itself. A last segment "*"
// is ignored. The id of a namespace's or cluster's card is its path. The error is an *Error:
// PathInvalid or PathNotFound.
func (c *Catalog) Children(path string) ([]Card, error) {
	return c.ChildrenOf(primitive.KindTool, path)
}

// IsRoot reports whether a path is the one of all namespaces.
func IsRoot(path string) bool {
	segments, err := splitPath(path)
	return err == nil && (len(segments) == 0 || len(segments) == 1 && segments[0] == "*")
}

// ChildrenOf returns the cards at a path of entries of one kind, as Children does for tools.
// Resources include resource templates.
func (c *Catalog) ChildrenOf(kind primitive.Kind, path string) ([]Card, error) {
	kind = kind.Surface()
	segments, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	if n := len(segments); n > 0 && segments[n-1] == "*" {
		segments = segments[:n-1]
	}
	if len(segments) == 0 {
		cards := []Card{}
		for _, s := range c.spaces {
			if t := s.tree(kind); t != nil {
				cards = append(cards, *t.root.card)
			}
		}
		sortCards(cards)
		return cards, nil
	}
	var n *node
	if s := c.spaces[segments[0]]; s != nil && s.tree(kind) != nil {
		n = s.tree(kind).root.find(segments[1:])
	}
	if n == nil {
		return nil, &Error{
			Code: PathNotFound, Path: path,
			Message: fmt.Sprintf("there is nothing at %s: browse %s to see what there is", clip(path, 120), c.nearestParent(kind, segments)),
		}
	}
	if n.entry != nil {
		return []Card{n.entry.Card}, nil
	}
	cards := make([]Card, len(n.children))
	for i, child := range n.children {
		if child.entry != nil {
			cards[i] = child.entry.Card
		} else {
			cards[i] = *child.card
		}
	}
	sortCards(cards)
	return cards, nil
}

func sortCards(cards []Card) {
	slices.SortFunc(cards, func(a, b Card) int { return strings.Compare(a.ID, b.ID) })
}

// nearestParent returns the longest existing prefix of a path, or the path of the server with the most
// similar name.
func (c *Catalog) nearestParent(kind primitive.Kind, segments []string) string {
	s := c.spaces[segments[0]]
	if s == nil || s.tree(kind) == nil {
		near, limit := "/", max(1, len(segments[0])/3)
		for name, space := range c.spaces {
			t := space.tree(kind)
			if t == nil {
				continue
			}
			if d := editDistance(segments[0], name, limit); d < limit || d == limit && (near == "/" || t.root.path < near) {
				near, limit = t.root.path, d
			}
		}
		return near
	}
	n := s.tree(kind).root
	for _, segment := range segments[1:] {
		next := n.find([]string{segment})
		if next == nil {
			break
		}
		n = next
	}
	return n.path
}

// Path returns the path of an entry. Children of that path is the entry's own card.
func (c *Catalog) Path(id string) (string, bool) {
	n := c.leaf(id)
	if n == nil {
		return "", false
	}
	return n.path, true
}

// splitPath validates a path and returns its segments (spec/gateway §3.2).
func splitPath(path string) ([]string, error) {
	invalid := func(format string, args ...any) error {
		return &Error{
			Code: PathInvalid, Path: path,
			Message: fmt.Sprintf("%s is no path: ", clip(strings.ToValidUTF8(fmt.Sprintf("%q", path), "?"), 120)) + fmt.Sprintf(format, args...),
		}
	}
	switch {
	case path == "/":
		return nil, nil
	case !strings.HasPrefix(path, "/"):
		return nil, invalid("it must start with /")
	case strings.HasSuffix(path, "/"):
		return nil, invalid("it must not end with /")
	}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		switch {
		case segment == "":
			return nil, invalid("a segment is empty")
		case segment == "*":
		case !legalSegment(segment):
			return nil, invalid("segment %s is neither [a-z0-9][a-z0-9_-]{0,63} nor *", clip(fmt.Sprintf("%q", segment), 80))
		case i == 0 && !legalNamespace(segment):
			return nil, invalid("the first segment is a namespace and starts with a letter")
		}
	}
	return segments, nil
}
