// Package confine is the process that gives up what a server does not need, and then becomes the server.
//
//	weir confine WALLS -- PROGRAM ARGS…
//	      │  no new privileges, no capabilities, limits
//	      │  Landlock: files, TCP ports, signals and abstract sockets of others
//	      │  system calls: no ptrace, no keyrings, no mounts, no sockets of the file system
//	      ▼
//	   PROGRAM, in the same process; or, if it reaches hosts through a socket, as a child of a process that carries its
//	   connections there
//
// To learn what a program needs, WALLS names the socket of a Watcher instead: the program runs without walls, and the kernel
// tells the Watcher each file and each address that it asks for.
//
// Package sandbox decides what a server needs, and starts this process.
package confine
