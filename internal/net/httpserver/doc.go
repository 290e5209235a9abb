// Package httpserver makes HTTP servers with the limits that all of weir's listeners have, and writes
// their JSON responses and the pages on which people sign in. It knows no path and no caller.
package httpserver
