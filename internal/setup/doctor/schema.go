package doctor

import (
	"context"
	"slices"
)

// Kinds of catalog findings that a person should know. The others are notes for operators.
var (
	brokenKinds = []string{"definition_invalid", "rejected", "schema_invalid", "schema_limit", "list_cut", "list_refused"}
	twiceKinds  = []string{"duplicate", "conflict", "name_shared", "name_rival", "name_taken"}
)

// overrideKind is the kind of findings about overrides.
const overrideKind = "override"

// longestName is the number of characters that a client's name for weir and a tool's name may have
// together: Cursor leaves out tools beyond it, and others refuse over 64.
const longestName = 60

// entryName is weir's name in clients.
const entryName = "weir"

// maxListed bounds the findings of one kind.
const maxListed = 10

// checkSchemas reports definitions that agents cannot use.
func (d *doctor) checkSchemas(context.Context) []Finding {
	if d.Config == nil {
		return nil
	}
	report, err := d.probe()
	if err != nil {
		return nil // reported with the servers
	}
	var list []Finding
	counts := map[string]int{}
	add := func(f Finding) {
		if counts[f.ID]++; counts[f.ID] <= maxListed {
			list = append(list, f)
		}
	}
	for _, c := range report.Findings {
		switch thing := "server " + c.Server; {
		case d.Only != "" && c.Server != d.Only:
		case slices.Contains(brokenKinds, c.Kind):
			add(found("schema-broken", thing, "%q: %s", c.Name, c.Text))
		case slices.Contains(twiceKinds, c.Kind):
			add(found("schema-twice", thing, "%q: %s", c.Name, c.Text))
		case c.Kind == overrideKind:
			add(found("schema-override", thing, "%s", c.Text))
		}
	}
	for _, name := range report.Listed {
		if d.Only == "" && len(entryName)+len(name) > longestName {
			add(found("schema-name", "tool "+name, "its name and %q have %d characters together; Cursor leaves it out", entryName, len(entryName)+len(name)))
		}
	}
	for _, id := range []string{"schema-broken", "schema-twice", "schema-override", "schema-name"} {
		if more := counts[id] - maxListed; more > 0 {
			list = append(list, found(id, "catalog", "and %d more: weir ls --changes --json, /catalog", more))
		}
	}
	return list
}
