package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/upstream"
)

// TestWhyAnUpstreamHasNoTools: weir ls shows the error of a server for as long as it
// is not there, also while it is started again.
func TestWhyAnUpstreamHasNoTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status upstream.Status
		shown  string
		whole  string
	}{
		{upstream.Status{State: upstream.StateStarting, Note: "has not answered for 6s"}, "has not answered for 6s", statusStarting},
		{upstream.Status{State: upstream.StateStarting}, "", statusStarting},
		{upstream.Status{State: upstream.StateStarting, LastError: "it ended"}, "it ended", statusDegraded},
		{upstream.Status{State: upstream.StateStarting, LastError: "it ended", Listed: true}, "it ended", statusOK},
		{upstream.Status{State: upstream.StateFailed, LastError: "it ended"}, "it ended", statusDegraded},
		{upstream.Status{State: upstream.StateReady, LastError: "no lists"}, "no lists", statusDegraded},
		{upstream.Status{State: upstream.StateReady, LastError: "a late list", Listed: true}, "", statusOK},
		{upstream.Status{State: upstream.StateIdle, Listed: true}, "", statusOK},
		{upstream.Status{State: upstream.StateDisabled}, "", statusOK},
	} {
		c.status.Name = "files"
		h := &health{Status: statusOK, Upstreams: map[string]upstreamHealth{}}
		h.add(c.status)
		if got := h.Upstreams["files"]; got.Error+got.Note != c.shown || h.Status != c.whole {
			t.Errorf("%+v: shown %q, whole %q; want %q, %q", c.status, got.Error+got.Note, h.Status, c.shown, c.whole)
		}
		var out bytes.Buffer
		a := &app{stdout: terminal{Writer: &out}}
		if err := a.printUpstreams(h); err != nil || !strings.Contains(out.String(), c.shown) {
			t.Errorf("%+v: %v, %s", c.status, err, out.String())
		}
	}
}

// TestOwnFrontAsUpstream: a server that is this gateway itself is told as that,
// however it is reached.
func TestOwnFrontAsUpstream(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\n")
	config := "mcpServers:\n  stream: {type: http, url: \"" + s.url + "\"}\n  events: {type: sse, url: \"" + s.base + "/sse\"}\n"
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h := s.await("both are known as loops", func(h health) bool {
		return strings.Contains(h.Upstreams["stream"].Error, "leads back to this weir") && strings.Contains(h.Upstreams["events"].Error, "leads back to this weir")
	})
	for name, u := range h.Upstreams {
		if u.Tools != 0 || !strings.Contains(u.Error, `upstream "`+name+`"`) {
			t.Errorf("%s: %d tools, %s", name, u.Tools, u.Error)
		}
	}
}
