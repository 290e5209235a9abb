// Start measures the time that a person waits before weir does anything: the version, a shell
// command against a running gateway, and the first browse of a gateway that has just been started
// with a catalog of 10,000 tools.
//
//	weir serve --catalog FILE ─▶ tool_browse, again and again until it is answered
//	weir --version, weir ls, weir search, weir call --url …
//
// It starts programs, so another load of the machine shows in the times, and less in the CPU times.
package main
