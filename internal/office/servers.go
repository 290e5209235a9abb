package office

import (
	"iter"
	"strings"
)

// Servers returns the servers that a name at /mcps stands for, each with the prefix that its tools have
// there. The name of a Computer ("desk") stands for all of its servers; one of them ("desk.excel") has no
// prefix.
func (o *Offices) Servers(name string) iter.Seq2[string, string] {
	return func(yield func(server, prefix string) bool) {
		if o == nil {
			return
		}
		for _, f := range o.fleets {
			target, whole, ok := f.Resolve(name)
			if !ok {
				continue
			}
			if !whole {
				yield(target, "")
				return
			}
			for _, one := range f.Names() {
				server, ok := strings.CutPrefix(one, name+".")
				if !ok {
					continue
				}
				if target, _, ok := f.Resolve(one); ok && !yield(target, server+"__") {
					return
				}
			}
			return
		}
	}
}
