// Package lazy makes what a package needs when it is first used, and not before main: most commands
// of a shell need little of it, and each pays for the whole binary.
package lazy
