package trace

import (
	"net/http"
	"testing"
)

const (
	someTrace  = "0af7651916cd43dd8448eb211c80319c"
	someSpan   = "b7ad6b7169203331"
	someParent = "00-" + someTrace + "-" + someSpan + "-01"
)

// TestParseParent: what W3C Trace Context calls invalid is no parent, and a later version is read as
// far as it is known.
func TestParseParent(t *testing.T) {
	for text, want := range map[string]struct{ ok, sampled bool }{
		someParent: {true, true},
		"00-" + someTrace + "-" + someSpan + "-00":                {true, false},
		"00-" + someTrace + "-" + someSpan + "-03":                {true, true},
		"01-" + someTrace + "-" + someSpan + "-01":                {true, true},
		"cc-" + someTrace + "-" + someSpan + "-01-later":          {true, true},
		"cc-" + someTrace + "-" + someSpan + "-01later":           {},
		someParent + "-more":                                      {},
		"ff-" + someTrace + "-" + someSpan + "-01":                {},
		"00-00000000000000000000000000000000-" + someSpan + "-01": {},
		"00-" + someTrace + "-0000000000000000-01":                {},
		"00-0AF7651916CD43DD8448EB211C80319C-" + someSpan + "-01": {},
		"00-0af7651916cd43dd8448eb211c80319g-" + someSpan + "-01": {},
		"00_" + someTrace + "-" + someSpan + "-01":                {},
		"":                                 {},
		"00-" + someTrace + "-" + someSpan: {},
	} {
		o, ok := parseParent(text)
		if ok != want.ok || ok && o.sampled != want.sampled {
			t.Errorf("%q: %v, sampled %v", text, ok, o.sampled)
		}
	}
}

// TestOrigin: the context in _meta comes before that in the headers, also where it is malformed, and
// brings its own tracestate.
func TestOrigin(t *testing.T) {
	other := "00-" + someTrace + "-00f067aa0ba902b7-01"
	header := http.Header{"Traceparent": {other}, "Tracestate": {"a=1", "b=2"}}
	for _, c := range []struct {
		meta, span, state string
		header            http.Header
	}{
		{``, "00f067aa0ba902b7", "a=1,b=2", header},
		{`{}`, "00f067aa0ba902b7", "a=1,b=2", header},
		{`{"traceparent":"` + someParent + `","tracestate":"c=3"}`, someSpan, "c=3", header},
		{`{"traceparent":"` + someParent + `"}`, someSpan, "", header},
		{`{"traceparent":"malformed"}`, "", "", header},
		{`{}`, "", "", nil},
	} {
		o, ok := originOf([]byte(c.meta), c.header)
		if ok != (c.span != "") || ok && (hexOf(o.span) != c.span || o.state != c.state) {
			t.Errorf("%s: %v %+v", c.meta, ok, o)
		}
	}
}

func hexOf(id [8]byte) string {
	s := span{id: id}
	return s.traceparent()[36:52]
}
