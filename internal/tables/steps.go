package tables

import "github.com/weir-mcp/weir/internal/dispatch"

// Steps returns all steps; steps of one phase are in their order.
func (t *Tables) Steps() []dispatch.Step {
	steps := []dispatch.Step{
		t.Columns(),
		{Phase: dispatch.PhaseMend, Name: "preview", Before: t.preview},
		{Phase: dispatch.PhaseFill, Name: "fill", Before: t.fill},
		{Phase: dispatch.PhaseFill, Name: "bodies", Before: fillBody},
	}
	if t.opts.Fetches != nil {
		steps = append(steps, dispatch.Step{Phase: dispatch.PhaseFill, Name: "carry", Before: t.carry})
	}
	if t.opts.Refusals != nil {
		steps = append(steps, dispatch.Step{Phase: dispatch.PhaseFill, Name: "reasons", Before: t.listen, After: t.explain})
	}
	return steps
}
