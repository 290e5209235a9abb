package metatool

import (
	"context"
	"sync"
)

// comparer compares the lists of followers in the background, where callers have lists of their own:
// the lists of each have to be made for it, and a new catalog does not wait for that. Requests that
// come while it is at work are joined into one. Its goroutine is one of the State's fan and exists
// only while there is work.
type comparer struct {
	mu         sync.Mutex // guards below
	running    bool
	all        bool                // all followers are to be compared
	principals map[string]struct{} // or the ones of these
}

// ask makes work compare all followers, or the followers of one principal.
func (c *comparer) ask(all bool, principal string, work func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case all:
		c.all = true
	case c.principals == nil:
		c.principals = map[string]struct{}{principal: {}}
	default:
		c.principals[principal] = struct{}{}
	}
	if !c.running {
		c.running = true
		work()
	}
}

// take returns whose followers are to be compared next. Without any, it is not at work any more.
func (c *comparer) take() (fits func(by viewer) bool, any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, principals := c.all, c.principals
	c.all, c.principals = false, nil
	c.running = all || len(principals) > 0
	return func(by viewer) bool {
		if all || by.id == nil {
			return all
		}
		_, one := principals[by.id.Principal]
		return one
	}, c.running
}

// compareLater compares all followers, or the followers of one principal, in the background.
func (s *State) compareLater(all bool, principal string) {
	s.comparer.ask(all, principal, func() {
		s.fan.Run(func(ctx context.Context) {
			for {
				fits, any := s.comparer.take()
				if !any {
					return
				}
				if g := s.front.Load(); g != nil {
					g.compareAll(ctx, s.followersOf(fits))
				}
			}
		})
	})
}
