// Package child starts programs that end with this process, however it ends.
//
//	Keeper.Start ──▶ child, leader of a process group of its own ──▶ its children, mostly in that group
//	     │
//	     ├─ Group.Signal, Group.Reap    the group, and descendants that have left it (Linux)
//	     ├─ parent-death signal         this process dies: the kernel ends the child (Linux)
//	     └─ watchdog                    this process dies: a shell ends the groups that are left (Unix)
//
// A killed process (SIGKILL, out of memory) cannot stop its children. The kernel can, but only
// direct children. It does so when the thread that started the child ends, so that thread is kept
// alive. A watchdog stops the children's descendants: a shell that knows their process groups and
// waits on a pipe for the end of this process.
//
// The package knows nothing of the programs' protocols.
package child
