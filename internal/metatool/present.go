package metatool

import (
	"context"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
)

// A reload makes another Gateway with the same State. Calls that wait in the one before find in the
// State what holds now.

// whole returns all entries that may exist for the caller of a request now.
func (s *State) whole(ctx context.Context) *Snapshot { return s.front.Load().wholeOf(ctx) }

// present returns what says what holds now to calls that have waited.
func (s *State) present(opts *Options) dispatch.Present {
	return dispatch.Present{
		Controls: func() *dispatch.Controls { return s.front.Load().ctl },
		Caller:   opts.Caller,
		Server:   opts.Configured,
		Subjects: s.subjects,
	}
}

// subjects returns the newest catalog and the subjects of a call of an entry, for dispatch.Present.
func (s *State) subjects(ctx context.Context, e *catalog.Entry, uri string) (*catalog.Catalog, []dispatch.Subject, bool) {
	now := s.whole(ctx)
	if listed := now.entryAt(e.Upstream, e.Kind, e.Key().Name); listed != nil {
		if same, ok := now.Catalog.Lookup(e.ID); ok { // of several of one name, the one that was called
			listed = same
		}
		e = listed
	} else if e.Raw != nil { // others are links in results
		return nil, nil, false
	}
	selected, _ := extentOf(s.front.Load().opts.Profiles, identity.RouteOf(ctx).Profile)
	if !selected.has(e) && !(uri != "" && selected.reads(e.Upstream, e.Namespace)) {
		return nil, nil, false
	}
	return now.Catalog, now.about(e, uri), true
}
