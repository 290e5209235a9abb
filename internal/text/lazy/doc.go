// Package lazy makes the values of a package when they are first used, and not before main: most
// commands of a shell need little of it, and each pays for the whole binary.
package lazy
