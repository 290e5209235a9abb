package router

import "testing"

// TestTaskOwnerAnew: an id that a server gives again belongs to the principal of the newest call; a
// result that only names a task takes it from no principal.
func TestTaskOwnerAnew(t *testing.T) {
	var o taskOwners
	o.made("1", "ann", "slow")
	o.named("1", "bob", "other")
	if !o.owns("ann", "1") || o.owns("bob", "1") {
		t.Error("a name takes the task of its owner")
	}
	o.made("1", "bob", "other")
	if o.owns("ann", "1") || !o.owns("bob", "1") || o.tool("bob", "1") != "other" || o.used.Len() != 1 {
		t.Errorf("ann has bob's task: %t, %q, %d tasks", o.owns("ann", "1"), o.tool("bob", "1"), o.used.Len())
	}
	o.named("2", "bob", "other")
	if !o.owns("bob", "2") {
		t.Error("a task that is named first has no owner")
	}
}
