package passthrough_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request to a server that takes no tokens is not read for the tool that a token would name: that
// would copy and parse every call.
func TestSignedReadsNoBodyInVain(t *testing.T) {
	for _, signs := range []bool{true, false} {
		reads, token := 0, ""
		sign := func(_, _, tool string) (string, error) { return "for " + tool, nil }
		base := transportFunc(func(r *http.Request) (*http.Response, error) {
			token = r.Header.Get(invocation.Header)
			return nil, errors.New("no network")
		})
		transport := passthrough.Signed(base, sign, func() bool { return signs }, passthrough.NewLoops(), "fake", "alice", slog.New(slog.DiscardHandler))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1/mcp", strings.NewReader(call("add")))
		if err != nil {
			t.Fatal(err)
		}
		body := r.GetBody
		r.GetBody = func() (io.ReadCloser, error) {
			reads++
			return body()
		}
		if resp, err := transport.RoundTrip(r); err == nil {
			resp.Body.Close()
			t.Fatal("there is a network")
		}
		want, wantReads := "", 0
		if signs {
			want, wantReads = "for add", 1
		}
		if token != want || reads != wantReads {
			t.Errorf("signs %v: token %q, body read %d times; want %q, %d", signs, token, reads, want, wantReads)
		}
	}
}
