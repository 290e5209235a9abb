package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/upstream"
)

const (
	// rosterPause is the time between a log record and the look at the servers. Several records
	// often tell of one change.
	rosterPause = 50 * time.Millisecond
	// rosterStart is how long weir serve waits for its servers before it shows its address at a
	// terminal. Clients can connect meanwhile.
	rosterStart = 5 * time.Second
	// rosterName bounds the names of servers at a terminal, in characters.
	rosterName = 24
)

// A roster tells a person at a terminal how the servers of a gateway come up, fail and come back.
//
//	log record ─▶ changed ─▶ look: compare Health with the last lines ─▶ lines
type roster struct {
	lines   *screenLines
	health  func() *gateway.Health
	clean   func(string) string // removes secrets
	now     func() time.Time
	changed chan struct{} // capacity 1: look again

	mu       sync.Mutex         // guards below
	told     map[string]outcome // by server
	waiting  []string           // servers without an outcome
	settled  chan struct{}      // closed when every server has an outcome
	complete bool               // settled is closed
}

// An outcome is the last reported state of one server.
type outcome struct {
	mark, style string
	text        string
	quiet       bool // not worth a line, such as a disabled server
}

// newRoster returns a roster that looks again after each record of the log that lines belong to.
func newRoster(lines *screenLines, health func() *gateway.Health, clean func(string) string, now func() time.Time) *roster {
	r := &roster{
		lines: lines, health: health, clean: clean, now: now,
		changed: make(chan struct{}, 1), told: map[string]outcome{}, settled: make(chan struct{}),
	}
	look := func() {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	lines.changed.Store(&look)
	return r
}

// run looks at the servers until ctx ends. The log tells of changes meanwhile.
func (r *roster) run(ctx context.Context) {
	defer r.lines.changed.Store(nil)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
			r.look()
		}
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			pause.Reset(rosterPause)
		}
	}
}

// look prints a line for each server whose outcome is new.
func (r *roster) look() {
	h := r.health()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
	width := 0
	for name := range h.Upstreams {
		width = max(width, utf8.RuneCountInString(r.shown(name)))
	}
	maps.DeleteFunc(r.told, func(name string, _ outcome) bool {
		_, there := h.Upstreams[name]
		return !there
	})
	for _, u := range h.List() {
		now, known := outcomeOf(u)
		if !known {
			r.waiting = append(r.waiting, u.Name)
			continue
		}
		now.text = oneLine(r.clean(now.text))
		before, again := r.told[u.Name]
		r.told[u.Name] = now
		if now == before || now.quiet {
			continue
		}
		text := now.text
		if again && before.mark == markDown && now.mark == markUp {
			text = "back, " + text
		}
		name := r.shown(u.Name)
		name += strings.Repeat(" ", width-utf8.RuneCountInString(name))
		r.lines.print(r.now(), now.style, now.mark, name, text)
	}
	if len(r.waiting) == 0 && !r.complete {
		r.complete = true
		r.lines.timed.Store(true) // from here on, lines tell of later changes
		close(r.settled)
	}
}

// shown returns the name of a server as lines have it.
func (r *roster) shown(name string) string {
	return middle(oneLine(r.lines.out.clean(name)), rosterName)
}

// Marks of outcomes.
const (
	markUp   = "✓"
	markDown = "✗"
	markOut  = "-"
)

// outcomeOf returns the state to report of a server. known is false while it starts for the first time.
func outcomeOf(u gateway.UpstreamHealth) (o outcome, known bool) {
	switch {
	case u.State == string(upstream.StateDisabled), u.State == string(upstream.StateStopped):
		return outcome{quiet: true}, true
	case u.State == string(upstream.StateLeftOut):
		return outcome{markOut, dim, u.Note, false}, true
	case u.State == lockfile.StateRefused:
		return outcome{markDown, red, u.Note, false}, true
	case u.Error != "":
		// The name stands before the reason already.
		return outcome{markDown, red, strings.TrimPrefix(u.Error, fmt.Sprintf("upstream %q ", u.Name)), false}, true
	case !u.Listed:
		return outcome{}, false
	}
	text := counted(u.Tools, "tool")
	if u.Resources > 0 {
		text += ", " + counted(u.Resources, "resource")
	}
	if u.Prompts > 0 {
		text += ", " + counted(u.Prompts, "prompt")
	}
	if u.Differs > 0 {
		return outcome{markUp, yellow, text + " · " + u.Note, false}, true
	}
	return outcome{markUp, green, text, false}, true
}

// open returns the servers that have not come up or failed yet.
func (r *roster) open() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waiting)
}

// summary returns how many servers can be called: 6 of 9 servers are up.
func (r *roster) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	up, all := 0, len(r.waiting)
	for _, o := range r.told {
		if o.mark == markUp {
			up++
		}
		if o.mark == markUp || o.mark == markDown {
			all++
		}
	}
	switch {
	case all == 0:
		return "no server is enabled"
	case up == all && all == 1:
		return "its server is up"
	case up == all:
		return "all " + counted(all, "server") + " are up"
	}
	verb := "are"
	if up == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of %s %s up", up, counted(all, "server"), verb)
}

// await waits until every server has come up or failed, at most rosterStart, and shows a spinner
// meanwhile.
func (r *roster) await(ctx context.Context, a *process) {
	limit := time.NewTimer(rosterStart)
	defer limit.Stop()
	defer spinText(a.stderr, func() string { return "starting " + strings.Join(r.open(), ", ") })()
	select {
	case <-r.settled:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// untold returns the warnings that no line of a roster repeats: a roster tells the first problem of
// each faulty server.
func untold(c *config.Config, warnings []config.Warning) []config.Warning {
	return slices.DeleteFunc(slices.Clone(warnings), func(w config.Warning) bool {
		return slices.ContainsFunc(c.Servers, func(s *config.Server) bool {
			if !s.Faulty() || s.Disabled {
				return false
			}
			p := s.Problems[0]
			return w.File == p.File && w.Line == p.Line && w.Column == p.Column && w.Key == p.Key
		})
	})
}
