package guard

import (
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Bounds of the part of a body that weir reads to find the id of a refused request: the id of a
// call of usual size is in it. Unauthenticated clients make weir wait and keep no longer and no
// more.
const (
	refusedBytes = 4 << 10
	refusedWait  = 200 * time.Millisecond
)

// Refuse answers a request that is not served, with the id of the request where it
// stands in the first 4 KB of the body. The rest of the body is not waited for.
func Refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	id := firstID(w, r)
	leaveBody(w, r)
	WriteError(w, status, id, err)
}

// firstID looks for the id of a request in the start of its body. Bytes that do not come at once
// are not waited for: then the connection ends with the answer.
func firstID(w http.ResponseWriter, r *http.Request) jsonrpc.ID {
	if r.Method != http.MethodPost || r.Body == nil || r.Body == http.NoBody || r.Header.Get("Expect") != "" {
		return ""
	}
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(refusedWait)); err != nil {
		return "" // it could wait for as long as the client likes
	}
	var finder jsonrpc.IDFinder
	if _, err := io.CopyN(&finder, r.Body, refusedBytes); err != nil && err != io.EOF {
		w.Header().Set("Connection", "close")
	}
	_ = connection.SetReadDeadline(time.Now().Add(drainTimeout)) // for the rest of a short body
	return finder.ID()
}
