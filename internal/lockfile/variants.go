package lockfile

import (
	"fmt"
	"slices"
)

// maxVariants bounds the definitions of one key that are agreed to.
const maxVariants = 16

// accepts reports whether a definition with a hash is agreed to. The nil definition accepts none.
func (d *definition) accepts(hash string) bool {
	return d != nil && (d.Hash == hash || slices.ContainsFunc(d.Others, func(o *definition) bool { return o.Hash == hash }))
}

// with returns a definition that accepts the variants of d, and one more. The newest comes first. If
// there are too many, the oldest one that is not used goes; if all are used, with returns an error.
func (d *definition) with(next *definition, used func(hash string) bool) (*definition, error) {
	if d == nil {
		return next, nil
	}
	first := *d
	first.Others = nil
	others := slices.DeleteFunc(append([]*definition{&first}, d.Others...), func(o *definition) bool { return o.Hash == next.Hash })
	for len(others) >= maxVariants {
		oldest := -1
		for i, o := range others {
			if !used(o.Hash) {
				oldest = i
			}
		}
		if oldest < 0 {
			return nil, fmt.Errorf("%d others are agreed to and in use, which is the bound", len(others))
		}
		others = slices.Delete(others, oldest, oldest+1)
	}
	out := *next
	out.Others = others
	return &out, nil
}

// check returns the mistake of a definition in a file.
func (d *definition) check() error {
	switch {
	case d == nil || d.Hash == "":
		return fmt.Errorf("has no hash")
	case len(d.Others) >= maxVariants:
		return fmt.Errorf("has more than %d definitions", maxVariants)
	}
	for _, o := range d.Others {
		if o == nil || o.Hash == "" || len(o.Others) > 0 {
			return fmt.Errorf("has another definition without a hash, or with others of its own")
		}
	}
	return nil
}
