package lockfile

import (
	"maps"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Values of ServerStatus.State.
const (
	StateLocked  = "locked"  // as the lock has it
	StateChanged = "changed" // differs, and is served
	StateHeld    = "held"    // some entries are hidden
	StateRefused = "refused" // nothing is served
)

// Status says how the servers differ from the lock.
type Status struct {
	Path    string         `json:"path,omitempty"`
	Error   string         `json:"error,omitempty"` // why the lock cannot be used
	Servers []ServerStatus `json:"servers"`
}

// ServerStatus says how one server differs from the lock.
type ServerStatus struct {
	Server string `json:"server"`
	Mode   Mode   `json:"mode"`
	State  string `json:"state"`
	// Digest identifies the present definitions of the server; see Acceptance.
	Digest      string       `json:"digest"`
	Differences []Difference `json:"differences"`
	// Findings are the findings of unchanged definitions.
	Findings []LockedFinding `json:"findings,omitempty"`
}

// LockedFinding is a finding about a definition that is as the lock has it.
type LockedFinding struct {
	Kind primitive.Kind `json:"kind"`
	Name string         `json:"name"`
	Finding
}

// maxLockedFindings bounds the findings of one server.
const maxLockedFindings = 100

// maxStatusMembers bounds the changed members of a Status.
const maxStatusMembers = 2000

// Status compares all listed servers with the lock.
func (k *Keeper) Status() *Status {
	s := &Status{Path: k.opts.Path, Servers: []ServerStatus{}}
	k.mu.Lock()
	if k.broken != nil {
		s.Error = k.broken.Error()
	}
	k.mu.Unlock()
	names := neighbours{}
	if k.opts.Neighbours != nil {
		names = newNeighbours(k.opts.Neighbours())
	}
	room := maxStatusMembers
	for _, w := range k.all() {
		w.mu.Lock()
		now, locked, v, own := w.now, w.locked, w.verdict, w.own != nil
		w.mu.Unlock()
		var one ServerStatus
		switch {
		case own:
			one = k.ownStatus(w.name, names)
		case now == nil:
			continue
		default:
			one = statusOf(now, locked, &v, names)
		}
		for i := range one.Differences {
			if d := &one.Differences[i]; room >= len(d.Members) {
				room -= len(d.Members)
			} else {
				d.Members = []Member{{Path: "(definition)", After: "too many differences to show; accept some of them first"}}
			}
		}
		s.Servers = append(s.Servers, one)
	}
	return s
}

func statusOf(now *observedServer, locked *lockedServer, v *verdict, names neighbours) ServerStatus {
	out := ServerStatus{Server: now.Server, Mode: v.mode, State: v.state(), Digest: now.Digest(), Differences: slices.Clone(v.differences)}
	if out.Differences == nil {
		out.Differences = []Difference{}
	}
	differ := map[Key]bool{}
	for i := range out.Differences {
		d := &out.Differences[i]
		var raw, before []byte
		if !d.Notice {
			differ[d.Key()] = true
			raw = now.definitions[d.Key()].raw
			if old := locked.get(d.Key()); old != nil {
				before = old.Text
			}
		}
		d.judge(raw, before, names)
	}
	for _, key := range slices.SortedFunc(maps.Keys(now.definitions), compareKeys) {
		if differ[key] {
			continue
		}
		d := Difference{Server: now.Server, Kind: key.Kind, Name: key.Name}
		d.judge(now.definitions[key].raw, nil, names)
		for _, f := range d.Findings {
			if len(out.Findings) < maxLockedFindings {
				out.Findings = append(out.Findings, LockedFinding{key.Kind, key.Name, f})
			}
		}
	}
	return out
}

// state names the verdict for people.
func (v *verdict) state() string {
	switch {
	case v.refused():
		return StateRefused
	case v.held() > 0:
		return StateHeld
	case len(v.differences) > 0 || v.err != nil:
		return StateChanged
	}
	return StateLocked
}

// Summary is the short form of a ServerStatus, for the state of a server.
type Summary struct {
	Differs int // definitions that differ
	Held    int // entries that are hidden
	Refused bool
	Note    string // says how the definitions differ and how to accept them; "" if they do not
}

// Summary returns how a server differs from the lock. It is cheap. All callers read it, so it is empty
// for a server that lists for each principal.
func (k *Keeper) Summary(server string) Summary {
	w := k.known(server)
	if w == nil {
		return Summary{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		return Summary{}
	}
	return Summary{Differs: w.verdict.count(), Held: w.verdict.held(), Refused: w.verdict.refused(), Note: w.verdict.note(server)}
}
