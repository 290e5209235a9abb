// Package sandbox decides what the program of a server needs of this machine, and starts it with nothing else.
//
//	Spec ──auto: the runner's caches, its state folder, paths that it is told──▶ walls
//	                                                                               │
//	   the strongest way that the machine has                                      ▼
//	     a container     podman or docker, if the entry has an image
//	     bubblewrap      namespaces of its own: no other process, no other file is there
//	     Landlock        the kernel refuses other files, signals and ports
//	     none            said so, or refused
//
//	hosts ──▶ Proxy: the only way out; it looks names up itself and lets the named hosts through
//
// Package confine is the process that builds the walls.
package sandbox
