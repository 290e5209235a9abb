// Package confine is the process that gives up what a server does not need, and then becomes the server.
//
//	weir confine WALLS -- PROGRAM ARGS…
//	      │  no new privileges, no capabilities, limits
//	      │  Landlock: files, TCP ports, signals and abstract sockets of others
//	      │  system calls: no ptrace, no keyrings, no mounts, no sockets of the file system
//	      ▼
//	   PROGRAM, in the same process
//
// It does so before most packages of the executable are initialised, which takes longer than the walls. Go initialises a
// package as soon as its imports are ready: so this one imports neither net nor os/exec.
//
// Package sandbox decides what a server needs, starts this process, and is the processes that carry and watch.
package confine
