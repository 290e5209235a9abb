package linearity

import (
	"maps"
	"slices"
	"strings"
)

// Join is the input of an operation with which a member wants a place of an office.
type Join struct {
	// Place is held by at most one member: the name of a Computer, or Agent.
	Place string
	// Who names the membership.
	Who string
	// Ends is the stamp from which on the membership may be over without an operation: its connection has
	// ended, or its node was cut off. Never: it ends by a Leave.
	Ends int64
	// Evicts says that the holder of the place, if it does not answer, may lose it to this member.
	Evicts bool
}

// Agent is the place of an office's Agent. It does not count as a Computer.
const Agent = "agent"

// Leave is the input of an operation that ends a membership.
type Leave struct{ Who string }

// Out is the input of an operation with which a member learns that its membership is over, without its doing.
type Out struct{ Who string }

// Read is the input of an operation that looks at an office.
type Read struct{}

// Joined is the output of a Join.
type Joined string

// Outputs of a Join.
const (
	In      Joined = "in"
	Taken   Joined = "taken"   // another member has the place
	Full    Joined = "full"    // there are as many Computers as there may be
	Unknown Joined = "unknown" // it may have been in, and is out again from Join.Ends on
)

// Members is the output of a Read: who is in, sorted, with a space after each.
type Members string

// MembersOf returns the output of a Read.
func MembersOf(who []string) Members {
	out := ""
	for _, one := range slices.Sorted(slices.Values(who)) {
		out += one + " "
	}
	return Members(out)
}

// seat is a membership in the state of an office.
type seat struct {
	who  string
	ends int64
}

// room is the state of an office. Values of the map are replaced, never changed, and key is their text.
type room struct {
	key   string
	seats map[string]seat
}

// with returns the state after a place has been given away, or taken from all if the seat is empty.
func (r *room) with(place string, s seat) *room {
	next := maps.Clone(r.seats)
	if next == nil {
		next = map[string]seat{}
	}
	if next[place] = s; s.who == "" {
		delete(next, place)
	}
	var key strings.Builder
	for _, p := range slices.Sorted(maps.Keys(next)) {
		key.WriteString(p + "=" + next[p].who + ";")
	}
	return &room{key.String(), next}
}

// computers returns the Computers in other places, those that have certainly not ended by a stamp and all.
func (r *room) computers(place string, by int64) (certain, all int) {
	for p, s := range r.seats {
		if p == place || p == Agent {
			continue
		}
		if all++; s.ends > by {
			certain++
		}
	}
	return certain, all
}

// Offices is the model of an office with at most so many Computers. A part is an office.
func Offices(most int) Model {
	states := map[string]*room{"": {}} // porcupine compares states: one text is one value
	step := func(state any, op Operation) (bool, any) {
		key, _ := state.(string)
		r := states[key]
		then := func(next *room) (bool, any) {
			if states[next.key] == nil {
				states[next.key] = next
			}
			return true, next.key
		}
		switch in := op.Input.(type) {
		case Leave:
			for place, s := range r.seats {
				if s.who == in.Who {
					return then(r.with(place, seat{}))
				}
			}
			return true, key // another has its place, which a Join decides
		case Out:
			for _, s := range r.seats {
				if s.who == in.Who && s.ends > op.Return {
					return false, key
				}
			}
			return true, key
		case Read:
			seen, _ := op.Output.(Members)
			rest := string(seen)
			for _, s := range r.seats {
				there := strings.Contains(" "+rest, " "+s.who+" ")
				if !there && s.ends > op.Return {
					return false, key
				}
				if there {
					rest = strings.TrimPrefix(strings.Replace(" "+rest, " "+s.who+" ", " ", 1), " ")
				}
			}
			return rest == "", key
		case Join:
			held, taken := r.seats[in.Place]
			certain, all := r.computers(in.Place, op.Return)
			if in.Place == Agent {
				certain, all = 0, 0
			}
			free := !taken || in.Evicts || held.ends <= op.Return
			mine := func() (bool, any) { return then(r.with(in.Place, seat{in.Who, in.Ends})) }
			switch op.Output {
			case In:
				if !free || in.Place != Agent && certain >= most {
					return false, key
				}
				return mine()
			case Taken:
				return taken, key
			case Full:
				return all >= most, key
			}
			if free && (in.Place == Agent || certain < most) {
				return mine()
			}
			return true, key
		}
		return false, key
	}
	return Model{start: "", step: step}
}
