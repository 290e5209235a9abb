// Package confined puts the programs of servers into their sandboxes.
//
//	mcpServers.NAME.sandbox ─▶ sandbox.Spec ─▶ sandbox.Machine ─▶ the command that upstream starts
//	hosts that a program asks for ─▶ log and audit, once in ten minutes each; the last ones are kept
//
// Describe says what a sandbox holds here, in the words of weir doctor and of the console.
//
// It joins the configuration, the supervision and the sandboxes, which do not know each other.
package confined
