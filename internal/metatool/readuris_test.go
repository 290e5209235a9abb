package metatool

import (
	"fmt"
	"strings"
	"testing"
)

// A session remembers which server it has read URIs of, the newest ones, up to a number and up to their bytes.
func TestReadURIsAreBounded(t *testing.T) {
	st := &sessionState{}
	if from := st.readFrom("a:0"); from != "" {
		t.Errorf("a session that has read nothing: %q", from)
	}
	for _, test := range []struct {
		size, most int
	}{{10, maxRead}, {16 << 10, maxReadBytes / (16 << 10)}} {
		uri := func(i int) string { return fmt.Sprintf("a:%0*d", test.size-2, i) }
		for i := range test.most + 1 {
			st.readURI(uri(i), "up")
		}
		if st.readFrom(uri(0)) != "" || st.readFrom(uri(1)) != "up" || st.readFrom(uri(test.most)) != "up" {
			t.Errorf("of %d URIs of %d bytes: %q, %q, %q", test.most+1, test.size, st.readFrom(uri(0)), st.readFrom(uri(1)), st.readFrom(uri(test.most)))
		}
	}
	if st.readURI(strings.Repeat("x", maxReadBytes+1), "up"); st.readFrom(strings.Repeat("x", maxReadBytes+1)) != "" {
		t.Error("a URI that is longer than all may be is remembered")
	}
}
