package passthrough

import (
	"net/http"
	"testing"
)

// TestResponseHeaderOfNodes: a server cannot say to a node that the session is another node's, which would send the
// request again.
func TestResponseHeaderOfNodes(t *testing.T) {
	got := http.Header{}
	copyResponseHeader(got, http.Header{"Weir-Owner": {"aaaaaa"}, "Weir-Unreached": {"unsent"}, "X-Own": {"1"}})
	if len(got) != 1 || got.Get("X-Own") != "1" {
		t.Errorf("%v", got)
	}
}
