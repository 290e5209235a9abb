package redact

import (
	"strings"
	"sync"
)

// A shape is the form of the keys and tokens of one issuer: a prefix, and parts between dots.
type shape struct {
	prefix string
	chars  *[256]bool // of a part
	parts  []int      // the least length of each part
}

var (
	letters = classOf("")
	words   = classOf("_")
	dashed  = classOf("_-")
)

// classOf returns the letters, the digits and further characters.
func classOf(more string) *[256]bool {
	var class [256]bool
	for c := range 256 {
		b := byte(c)
		class[c] = 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte(more, b) >= 0
	}
	return &class
}

// shapes are the forms that are looked for, by the prefixes that the issuers publish.
var shapes = sync.OnceValue(func() *shapeIndex {
	x := &shapeIndex{}
	add := func(chars *[256]bool, parts []int, prefixes ...string) {
		for _, prefix := range prefixes {
			x.add(shape{prefix, chars, parts})
		}
	}
	add(dashed, []int{16}, "sk-", "glpat-")
	add(letters, []int{20}, "ghp_", "gho_", "ghu_", "ghs_", "ghr_")
	add(words, []int{20}, "github_pat_")
	add(dashed, []int{10}, "xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-")
	add(dashed, []int{20}, "xapp-", "ya29.", "dckr_pat_", "sq0atp-", "sq0csp-", "GOCSPX-")
	add(letters, []int{16}, "AKIA", "ASIA")
	add(dashed, []int{30}, "AIza", "pypi-", "PMAK-", "nvapi-", "figd_")
	add(words, []int{16}, "sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_")
	add(words, []int{30}, "npm_", "glsa_")
	add(letters, []int{30}, "hf_", "gsk_", "xai-", "lin_api_", "ntn_", "rubygems_", "shpat_", "shpca_", "shppa_", "shpss_", "dop_v1_", "doo_v1_", "dor_v1_")
	add(dashed, []int{24}, "hvs.", "hvb.")
	add(letters, []int{50}, "AGE-SECRET-KEY-1")
	add(dashed, []int{16, 16}, "SG.")
	add(dashed, []int{8, 8, 0}, "eyJ") // a JWT
	return x
})

// shapeIndex finds shapes by the first two bytes of their prefixes.
type shapeIndex struct {
	starts [1 << 16 / 64]uint64
	shapes map[[2]byte][]shape
}

func (x *shapeIndex) add(s shape) {
	if x.shapes == nil {
		x.shapes = map[[2]byte][]shape{}
	}
	first := [2]byte{s.prefix[0], s.prefix[1]}
	x.shapes[first] = append(x.shapes[first], s)
	at := uint(first[0])<<8 | uint(first[1])
	x.starts[at/64] |= 1 << (at % 64)
}

// Shapes finds keys and tokens of well-known forms in a text. The zero value is ready for use with one text.
type Shapes struct {
	endless int // the part of a shape that begins before this offset ends there, with nothing after it
}

// Next returns the first place in text, from an offset on, where a key or token of a well-known form stands. It
// takes time in proportion to the text, however many calls read it to its end.
func (f *Shapes) Next(text string, from int) (start, end int, found bool) {
	x := shapes()
	for i := from; i+1 < len(text); i++ {
		at := uint(text[i])<<8 | uint(text[i+1])
		if x.starts[at/64]&(1<<(at%64)) == 0 || i > 0 && words[text[i-1]] {
			continue
		}
		for _, s := range x.shapes[[2]byte{text[i], text[i+1]}] {
			if len(s.parts) > 1 && i < f.endless {
				continue // all parts have the same characters
			}
			end, ok := s.match(text, i)
			if ok {
				return i, end, true
			}
			if len(s.parts) > 1 && end > i {
				f.endless = end
			}
		}
	}
	return 0, 0, false
}

// match returns where a secret that starts at i ends. If there is none because a part has no dot behind it, end
// is the end of that part, else 0.
func (s *shape) match(text string, i int) (end int, ok bool) {
	if !strings.HasPrefix(text[i:], s.prefix) {
		return 0, false
	}
	i += len(s.prefix)
	for n, least := range s.parts {
		if n > 0 {
			if i >= len(text) || text[i] != '.' {
				return i, false
			}
			i++
		}
		begin := i
		for i < len(text) && s.chars[text[i]] {
			i++
		}
		if i-begin < least {
			return 0, false
		}
	}
	return i, true
}
