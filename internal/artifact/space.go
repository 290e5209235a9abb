package artifact

import (
	"container/list"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// space has the artifacts and tokens of one principal.
type space struct {
	principal string
	items     map[string]*item
	recent    list.List                // of those with a handle, the most recently used in front
	bytes     int64                    // of all that are not beyond
	tokens    list.List                // of *token, the oldest in front
	gone      map[string]*list.Element // of *tombstone in ledger.gone
	goneOrder list.List                // of *tombstone of this space, the oldest in front
}

func (sp *space) empty() bool { return len(sp.gone) == 0 && len(sp.items) == 0 && sp.tokens.Len() == 0 }

// item is an artifact in its space.
type item struct {
	Artifact
	content *content
	space   *space
	recent  *list.Element // nil: single
	tokens  map[*token]bool
	home    string           // its place
	single  bool             // deposited for one token
	beyond  bool             // in files, and not counted in the bytes of its space
	limited *table.Selection // the rows that a source has left; nil: all
	at      int              // in byAge
	backed  time.Time        // when its copy at Nodes.Backup ends
}

// tombstone remembers why a handle is gone.
type tombstone struct {
	space  *space
	handle string
	home   string // the place of the artifact
	kind   error
	at     time.Time
	order  *list.Element
}

// waits reports whether an unspent token leads to an item, so that it must not be evicted.
func (it *item) waits() bool { return it.single || len(it.tokens) > 0 }
