package gateway

import (
	"testing"

	"github.com/weir-mcp/weir/internal/upstream"
)

// TestWhyAnUpstreamHasNoTools: the health has the error of a server for as long as it
// is not there, also while it is started again.
func TestWhyAnUpstreamHasNoTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status upstream.Status
		shown  string
		whole  string
	}{
		{upstream.Status{State: upstream.StateStarting, Note: "has not answered for 6s"}, "has not answered for 6s", StatusStarting},
		{upstream.Status{State: upstream.StateStarting}, "", StatusStarting},
		{upstream.Status{State: upstream.StateStarting, LastError: "it ended"}, "it ended", StatusDegraded},
		{upstream.Status{State: upstream.StateStarting, LastError: "it ended", Listed: true}, "it ended", StatusOK},
		{upstream.Status{State: upstream.StateFailed, LastError: "it ended"}, "it ended", StatusDegraded},
		{upstream.Status{State: upstream.StateReady, LastError: "no lists"}, "no lists", StatusDegraded},
		{upstream.Status{State: upstream.StateReady, LastError: "a late list", Listed: true}, "", StatusOK},
		{upstream.Status{State: upstream.StateIdle, Listed: true}, "", StatusOK},
		{upstream.Status{State: upstream.StateDisabled}, "", StatusOK},
	} {
		c.status.Name = "files"
		h := &Health{Status: StatusOK, Upstreams: map[string]UpstreamHealth{}}
		h.add(c.status)
		if got := h.Upstreams["files"]; got.Error+got.Note != c.shown || h.Status != c.whole {
			t.Errorf("%+v: shown %q, whole %q; want %q, %q", c.status, got.Error+got.Note, h.Status, c.shown, c.whole)
		}
	}
}
