package part

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/weir-mcp/weir/internal/config"
)

// A Part is the life of one room of a gateway, from a constructor that has returned. A nil function
// does nothing.
type Part struct {
	// Name is the name of the part in errors and tests.
	Name string
	// Keys are the top-level keys of the configuration that the part owns. Each key has one part.
	Keys []Key
	// Prepare checks a changed configuration, and changes nothing. apply puts it in force and cannot
	// fail; it may be nil. The error is for the operator.
	Prepare func(r Reload) (apply func(), err error)
	// Close ends the part, and waits at most until ctx ends.
	Close func(ctx context.Context)
}

// A Reload is a configuration that is to follow another one.
type Reload struct {
	Now, Next *config.Config
	// Change is the difference.
	Change config.Change
}

// A Key is a top-level key, and how its value counts at a reload.
type Key struct {
	Name string
	// Late names the settings of the key that need a restart, because they configure objects that are
	// made at the start. It is "" if there are none.
	Late string
	// Split returns the settings that apply at once and those that need a restart. Nil is for a key
	// with Late that needs one as a whole.
	Split func(c *config.Config) (live, late any)
}

// Counts reports whether a change of the key's value counts at once, and whether some of it waits for a
// restart.
func (k Key) Counts(now, next *config.Config) (applied, waits bool) {
	if k.Split == nil {
		return k.Late == "", k.Late != ""
	}
	liveNow, lateNow := k.Split(now)
	live, late := k.Split(next)
	return !reflect.DeepEqual(liveNow, live), !reflect.DeepEqual(lateNow, late)
}

// AtOnce returns keys that apply at once.
func AtOnce(names ...string) (keys []Key) {
	for _, name := range names {
		keys = append(keys, Key{Name: name})
	}
	return keys
}

// AtRestart returns keys that need a restart.
func AtRestart(names ...string) (keys []Key) {
	for _, name := range names {
		keys = append(keys, Key{Name: name, Late: name})
	}
	return keys
}

// A Table has the parts of a gateway, in the order in which they are made.
type Table []Part

// Prepare has all parts check a reload. If one of them refuses it, the error has the reasons of all, and
// nothing has changed. Otherwise apply puts the reload in force in all of them, in the order of t.
func (t Table) Prepare(r Reload) (apply func(), err error) {
	var all []func()
	var refusals []error
	for _, p := range t {
		if p.Prepare == nil {
			continue
		}
		one, err := p.Prepare(r)
		if err != nil {
			refusals = append(refusals, fmt.Errorf("%s: %w", p.Name, err))
		}
		if one != nil {
			all = append(all, one)
		}
	}
	if len(refusals) > 0 {
		return nil, errors.Join(refusals...)
	}
	return func() {
		for _, one := range all {
			one()
		}
	}, nil
}

// Divide splits changed keys into those that apply at once and the settings that need a restart, as
// messages name them.
func (t Table) Divide(r Reload) (applied, waits []string) {
	for _, name := range r.Change.Other {
		key := t.key(name)
		counts, later := key.Counts(r.Now, r.Next)
		if counts {
			applied = append(applied, name)
		}
		if later {
			waits = append(waits, key.Late)
		}
	}
	return applied, waits
}

// key returns the key with a name.
func (t Table) key(name string) Key {
	for _, p := range t {
		if i := slices.IndexFunc(p.Keys, func(k Key) bool { return k.Name == name }); i >= 0 {
			return p.Keys[i]
		}
	}
	return Key{Name: name}
}

// Close ends all parts, in the reverse order of t.
func (t Table) Close(ctx context.Context) {
	for _, p := range slices.Backward(t) {
		if p.Close != nil {
			p.Close(ctx)
		}
	}
}
