package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Sign returns the mark of the level for people.
func (l Level) Sign() string {
	switch l {
	case OK:
		return "✓"
	case Warn:
		return "!"
	}
	return "✗"
}

// kind describes one kind of finding.
type kind struct {
	ID    string
	Level Level
	// Owner is who can mend it.
	Owner string
	// Meaning is the symptom and its cause, and Fix the way out, each as sentences.
	Meaning, Fix string
}

// Finding is the result of one check.
type Finding struct {
	ID    string `json:"id"`
	Level Level  `json:"level"`
	// Thing is the subject of the finding, such as: server files.
	Thing string `json:"thing"`
	Text  string `json:"text"`
	Owner string `json:"owner,omitempty"`
	Fix   string `json:"fix,omitempty"`
	// Lines are the last lines of a program's output, at most 20.
	Lines []string `json:"lines,omitempty"`
	// Repair mends it safely; nil if a person has to.
	Repair *Repair `json:"repair,omitempty"`
}

// Repair is a fix that weir can make by itself. Show describes the change that Do will make. Do returns
// the number of the operation that weir undo takes back, 0 if there is none.
type Repair struct {
	Show string                             `json:"show"`
	Do   func(context.Context) (int, error) `json:"-"`
}

// Failed reports whether a finding is a failure.
func Failed(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Level == Fail })
}

// found makes a finding of a kind of the table. An empty format stands for the meaning in the table.
func found(id, thing, format string, args ...any) Finding {
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.ID == id })
	if at < 0 {
		panic("doctor: no kind " + id) // cannot happen: a test calls found with each id in the source
	}
	k := kinds[at]
	f := Finding{ID: id, Level: k.Level, Thing: thing, Text: k.Meaning, Owner: k.Owner, Fix: k.Fix}
	if format != "" {
		f.Text = fmt.Sprintf(format, args...)
	}
	return f
}

// fine makes a finding without a fault. group is the first part of ids.
func fine(group, thing, format string, args ...any) Finding {
	return Finding{ID: group + "-ok", Level: OK, Thing: thing, Text: fmt.Sprintf(format, args...)}
}

// fix replaces the way out by one that names the particulars.
func (f Finding) fix(format string, args ...any) Finding {
	f.Fix = fmt.Sprintf(format, args...)
	return f
}

// groups are the first parts of ids in the order of reports: causes come before their effects.
var groups = []string{"config", "runtime", "server", "schema", "flow", "gateway", "store", "client", "keyring", "service", "disk", "doctor"}

// sorted orders findings by group, with the order of their checks within it.
func sorted(list []Finding) []Finding {
	rank := func(f Finding) int {
		group, _, _ := strings.Cut(f.ID, "-")
		return slices.Index(groups, group)
	}
	slices.SortStableFunc(list, func(a, b Finding) int { return rank(a) - rank(b) })
	return list
}

// Markdown returns the table of kinds for the documentation.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| finding | | meaning | owner | fix |\n| --- | --- | --- | --- | --- |\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.ID, k.Level.Sign(), k.Meaning, k.Owner, k.Fix)
	}
	return b.String()
}
