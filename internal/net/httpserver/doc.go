// Package httpserver makes HTTP servers with the limits that all of weir's listeners have, and writes
// their JSON responses. It knows no path and no caller.
package httpserver
