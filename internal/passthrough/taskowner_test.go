package passthrough

import "testing"

// TestTaskOwnerAnew: an id that a server gives again belongs to the principal of the newest call; a
// result that only names a task takes it from no principal.
func TestTaskOwnerAnew(t *testing.T) {
	var o taskOwners
	owns := func(principal, id string) bool {
		mine, err := o.owns(t.Context(), principal, id)
		return mine && err == nil
	}
	o.made(t.Context(), "1", "ann", "slow")
	o.named(t.Context(), "1", "bob", "other")
	if !owns("ann", "1") || owns("bob", "1") {
		t.Error("a name takes the task of its owner")
	}
	o.made(t.Context(), "1", "bob", "other")
	if owns("ann", "1") || !owns("bob", "1") || o.tool(t.Context(), "bob", "1") != "other" || o.used.Len() != 1 {
		t.Errorf("ann has bob's task: %t, %q, %d tasks", owns("ann", "1"), o.tool(t.Context(), "bob", "1"), o.used.Len())
	}
	o.named(t.Context(), "2", "bob", "other")
	if !owns("bob", "2") {
		t.Error("a task that is named first has no owner")
	}
}
