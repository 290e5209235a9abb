package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxNamed bounds the tools of one label, or of one kind of sink, that a line names.
const maxNamed = 8

// checkFlow reports the flow labels of the tools, by the rules that give them, and the sinks.
func (d *doctor) checkFlow(context.Context) []Finding {
	report, err := d.probe()
	if err != nil || report.Flow == nil {
		return nil // reported with the servers
	}
	of := report.Flow
	list := []Finding{fine("flow", "flow labels", "mode %s; weir flow ls has each tool", of.Mode)}
	labels, sinks := map[string][]string{}, map[string][]string{}
	for _, one := range of.Tools {
		label := one.Integrity
		if len(one.Confidentiality) > 0 {
			label += " for " + strings.Join(one.Confidentiality, ", ")
		}
		label += ", by " + one.Rule
		labels[label] = append(labels[label], one.ToolID)
		if one.Sink != "" {
			sink := one.Sink + ", by " + one.SinkRule
			sinks[sink] = append(sinks[sink], one.ToolID)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, fine("flow", "label "+label, "%s", named(labels[label])))
	}
	for _, sink := range slices.Sorted(maps.Keys(sinks)) {
		list = append(list, fine("flow", "sink "+sink, "%s", named(sinks[sink])))
	}
	for _, rule := range of.Unused {
		list = append(list, found("flow-unused", rule, ""))
	}
	return list
}

// named returns a few names, and how many there are.
func named(names []string) string {
	shown := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}
