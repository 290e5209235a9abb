package passthrough

import (
	"strings"
	"testing"
)

// TestStreamTail: the response is found wherever the stream is cut, and the bytes kept are bounded.
func TestStreamTail(t *testing.T) {
	stream := ": hello\n\nevent: message\ndata: {\"method\":\"x\"}\n\n" + strings.Repeat("data: "+strings.Repeat("y", 1000)+"\n\n", 500) + "id: 7\ndata: {\"id\":1,\ndata: \"result\":{}}\n\n: bye\n\n"
	for _, size := range []int{1, 7, 4096, len(stream)} {
		s := &streamTail{}
		for rest := stream; rest != ""; {
			n := min(size, len(rest))
			s.add([]byte(rest[:n]))
			rest = rest[n:]
			if size < len(stream) && len(s.kept) > 2*maxTail {
				t.Fatalf("%d bytes are kept", len(s.kept))
			}
		}
		if got := string(s.response()); got != "{\"id\":1,\n\"result\":{}}" {
			t.Errorf("in pieces of %d: %q", size, got)
		}
	}
	var none *streamTail
	none.add([]byte("data: x\n\n"))
	if none.response() != nil {
		t.Error("a nil streamTail keeps something")
	}
}
