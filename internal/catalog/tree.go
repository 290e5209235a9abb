package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// maxLevel is the number of children from which a level is divided into clusters; see Limits.most.
const maxLevel = 20

// maxSegment bounds a path segment, in characters.
const maxSegment = 64

// node is a place in a path tree: a namespace, a cluster or a leaf.
type node struct {
	segment  string
	path     string
	entry    *Entry  // of a leaf
	children []*node // of other nodes, sorted by segment
	card     *Card   // of other nodes
	leaves   int
}

// tree has the paths of one kind in one namespace (spec/gateway §3):
//
//	/github                         a namespace
//	/github/issue                   a cluster, where a level has over 20 children
//	/github/issue/create_issue      a leaf
type tree struct {
	root *node
}

// buildTree makes the tree of entries of one kind and namespace. The result does not depend on their
// order. The card of the namespace starts with about, which may be empty. A level of up to most
// children is not divided.
func buildTree(namespace, about string, kind primitive.Kind, entries []*Entry, most int) *tree {
	leaves := make([]*node, len(entries))
	for i, segment := range leafSegments(entries) {
		leaves[i] = &node{segment: segment, entry: entries[i], leaves: 1}
	}
	sortNodes(leaves)
	root := &node{segment: namespace, children: group(leaves, nil, most), leaves: len(leaves)}
	root.place("", namespace, kind)
	if about != "" {
		root.card.fit(about + "; " + root.describe(kind)) // a full stop would be a place to cut
	}
	return &tree{root: root}
}

func sortNodes(nodes []*node) {
	slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.segment, b.segment) })
}

// place sets the paths of all nodes below n, and n's card.
func (n *node) place(parent, namespace string, kind primitive.Kind) {
	n.path = parent + "/" + n.segment
	if n.entry != nil {
		return
	}
	for _, child := range n.children {
		child.place(n.path, namespace, kind)
	}
	n.card = &Card{ID: n.path, Name: n.segment, Kind: primitive.KindInternal, Namespace: namespace}
	n.card.fit(n.describe(kind))
}

// describe summarizes the content of a node.
func (n *node) describe(kind primitive.Kind) string {
	const most = 12
	var b strings.Builder
	noun := string(kind)
	if n.leaves != 1 {
		noun += "s"
	}
	fmt.Fprintf(&b, "%d %s: ", n.leaves, noun)
	for i, child := range n.children[:min(most, len(n.children))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(child.segment)
	}
	if len(n.children) > most {
		b.WriteString(", …")
	}
	return b.String()
}

// find returns the node at segments below n, or nil. A cluster is found by the plural of its word
// as well: /github/issues is /github/issue.
func (n *node) find(segments []string) *node {
	for _, segment := range segments {
		next := n.child(segment)
		if one := singular(segment); next == nil && one != segment {
			if next = n.child(one); next != nil && next.entry != nil {
				next = nil
			}
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return n
}

// child returns the child with a segment, or nil.
func (n *node) child(segment string) *node {
	i, ok := slices.BinarySearchFunc(n.children, segment, func(c *node, s string) int { return strings.Compare(c.segment, s) })
	if !ok {
		return nil
	}
	return n.children[i]
}

// leafSegments returns the last path segment of each entry: the slug of its name. If the slug
// differs from the name, or is not unique, "-" and the hash of its shape follow. If that is not
// unique either (two versions of one tool), a hash of its id follows.
func leafSegments(entries []*Entry) []string {
	segments := make([]string, len(entries))
	count := make(map[string]int, len(entries))
	for i, e := range entries {
		segments[i] = e.Name
		if slug := slug(e.Name); slug != e.Name {
			segments[i] = withSuffix(slug, e.Hash8)
		}
		count[segments[i]]++
	}
	for _, suffix := range []func(*Entry) string{
		func(e *Entry) string { return e.Hash8 },
		func(e *Entry) string { return idHash(e.ID) },
		func(e *Entry) string { return idHash(e.ID + " ") },
	} {
		again := false
		for i, e := range entries {
			if count[segments[i]] > 1 {
				segments[i] = withSuffix(slug(e.Name), suffix(e))
				again = true
			}
		}
		if !again {
			break
		}
		clear(count)
		for _, segment := range segments {
			count[segment]++
		}
	}
	return segments
}

func idHash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:hash8Len/2])
}

func withSuffix(slug, suffix string) string {
	if limit := maxSegment - 1 - len(suffix); len(slug) > limit {
		slug = slug[:limit]
	}
	return slug + "-" + suffix
}

// slug maps a name to the grammar of segments: lower case, "-" for other characters, without
// illegal first characters.
func slug(name string) string {
	if legalSegment(name) {
		return name
	}
	b := []byte(strings.ToLower(name))
	for i, c := range b {
		if !isNamespaceByte(c) {
			b[i] = '-'
		}
	}
	s := strings.TrimLeft(string(b), "-_")
	if s == "" {
		return "x"
	}
	return s[:min(len(s), maxSegment)]
}

func legalSegment(s string) bool {
	return s != "" && len(s) <= maxSegment && (isLower(s[0]) || isDigit(s[0])) && all(s, isNamespaceByte)
}

// group returns the children of a level: the leaves themselves if they are few, otherwise clusters
// by shared words, each divided again. used are words of higher levels. Leaves without a shared
// word stay if there is room, or are grouped alphabetically. leaves are sorted by segment.
func group(leaves []*node, used []string, most int) []*node {
	if len(leaves) <= most {
		return leaves
	}
	clusters, rest := byWord(leaves, used, most)
	switch {
	case len(clusters) > 0:
	case len(leaves) <= maxLevel:
		return leaves
	default:
		return byAlphabet(leaves)
	}
	switch {
	case len(clusters)+len(rest) <= maxLevel:
		clusters = append(clusters, rest...)
	case len(rest) > 0:
		clusters = append(clusters, &node{segment: "other", children: group(rest, used, most), leaves: len(rest)})
	}
	uniqueSegments(clusters)
	sortNodes(clusters)
	return clusters
}

// uniqueSegments renames clusters whose segment is already used.
func uniqueSegments(nodes []*node) {
	taken := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		if n.entry != nil {
			taken[n.segment] = true
		}
	}
	for _, n := range nodes {
		if n.entry != nil {
			continue
		}
		name := n.segment
		for i := 2; taken[n.segment]; i++ {
			n.segment = withSuffix(name, fmt.Sprint(i))
		}
		taken[n.segment] = true
	}
}

// byWord makes clusters of leaves that share a word: the most frequent word first, nouns before
// verbs, because agents look for a subject before an action. rest are the leaves in no cluster.
func byWord(leaves []*node, used []string, most int) (clusters, rest []*node) {
	words := make([][]string, len(leaves))
	having := map[string][]int{} // word → leaves
	for i, leaf := range leaves {
		for _, word := range nameWords(leaf.entry.Name) {
			if !slices.Contains(used, word) && !slices.Contains(words[i], word) {
				words[i] = append(words[i], word)
				having[word] = append(having[word], i)
			}
		}
	}
	left := make(map[string]int, len(having)) // unplaced leaves per word
	var candidates []string
	for word, list := range having {
		// A word that nearly all share does not distinguish them.
		if len(list) >= 2 && len(list)*5 <= len(leaves)*4 {
			left[word] = len(list)
			candidates = append(candidates, word)
		}
	}
	slices.Sort(candidates)
	placed := make([]bool, len(leaves))
	remaining := len(leaves)
	for len(clusters) < maxLevel-1 && remaining > 0 {
		best := ""
		for _, word := range candidates {
			if left[word] >= 2 && (best == "" || better(word, left[word], best, left[best])) {
				best = word
			}
		}
		if best == "" {
			break
		}
		var members []*node
		for _, i := range having[best] {
			if placed[i] {
				continue
			}
			placed[i] = true
			members = append(members, leaves[i])
			for _, word := range words[i] {
				left[word]--
			}
		}
		remaining -= len(members)
		clusters = append(clusters, &node{
			segment:  best,
			children: group(members, append(slices.Clip(used), best), most),
			leaves:   len(members),
		})
	}
	if len(clusters) == 1 && remaining == 0 {
		return nil, leaves
	}
	for i, leaf := range leaves {
		if !placed[i] {
			rest = append(rest, leaf)
		}
	}
	return clusters, rest
}

// better reports whether a word is a better cluster name than another.
func better(word string, n int, than string, thanN int) bool {
	verb, thanVerb := plainWords[word], plainWords[than]
	if verb != thanVerb {
		return thanVerb
	}
	return n > thanN
}

// byAlphabet divides sorted leaves into at most maxLevel ranges of similar size, named by their
// first leaf.
func byAlphabet(leaves []*node) []*node {
	size := max(maxLevel, (len(leaves)+maxLevel-1)/maxLevel)
	var ranges []*node
	for part := range slices.Chunk(leaves, size) {
		children := part
		if len(part) > maxLevel {
			children = byAlphabet(part)
		}
		name := "from-" + part[0].segment
		ranges = append(ranges, &node{segment: name[:min(len(name), maxSegment)], children: children, leaves: len(part)})
	}
	uniqueSegments(ranges)
	sortNodes(ranges)
	return ranges
}

// nameWords splits a name at "_", "-", "." and capitals. The words are lower case and singular;
// numbers and words that cannot name a segment are dropped.
func nameWords(name string) []string {
	var words []string
	start := 0
	flush := func(end int) {
		word := strings.ToLower(name[start:end])
		if len(word) > 1 && len(word) <= maxSegment && isLower(word[0]) {
			words = append(words, singular(word))
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '_' || c == '-' || c == '.':
			flush(i)
			start = i + 1
		case isUpper(c) && i > start && (!isUpper(name[i-1]) || i+1 < len(name) && isLower(name[i+1])):
			flush(i)
			start = i
		}
	}
	flush(len(name))
	return words
}

func singular(word string) string {
	switch {
	case len(word) > 4 && strings.HasSuffix(word, "ies"):
		return word[:len(word)-3] + "y"
	case len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") && !strings.HasSuffix(word, "us") && !strings.HasSuffix(word, "is"):
		return word[:len(word)-1]
	}
	return word
}

// plainWords are common verbs and function words. They name a cluster only if there is no better
// word.
var plainWords = func() map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(`
		add all and append apply approve archive assign batch bulk by call cancel check clear clone close copy count create
		current delete describe detail disable download edit enable execute export fetch filter find for from generate get
		has import in info insert invoke is item list load lookup make merge modify move new of on open or patch perform post
		publish put query read refresh register remove rename replace request reset resolve restore retrieve run save scan
		search select send set show start status stop submit sync tag test the to toggle transfer update upload upsert
		validate verify view watch with write`) {
		set[singular(word)] = true
	}
	return set
}()
