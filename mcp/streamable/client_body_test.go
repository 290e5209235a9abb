package streamable

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// A transport may read a large request after its call has ended, and gets no bytes of another request.
func TestRequestBody(t *testing.T) {
	first := newRequestBody(pooledBody)
	first.buf = append(first.buf[:0], strings.Repeat("a", pooledBody)...)
	late, again := first.reader(), first.reader()
	first.release()
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	for range 10 { // a pool may hand out another buffer, but never one in use
		other := newRequestBody(pooledBody)
		if &other.buf[:1][0] == &first.buf[0] {
			t.Fatal("a buffer is used again that has a reader")
		}
	}
	if got, err := io.ReadAll(late); err != nil || strings.Trim(string(got), "a") != "" || len(got) != pooledBody {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for range 2 {
		if err := late.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if first.refs.Load() != 0 {
		t.Errorf("%d holders", first.refs.Load())
	}
	closed := late.(*requestReader)
	if _, err := closed.WriteTo(io.Discard); !errors.Is(err, http.ErrBodyReadAfterClose) || closed.Len() != 0 {
		t.Errorf("a closed reader of %d bytes: %v", closed.Len(), err)
	}
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a closed reader: %v", err)
	}
}

// Calls of both sizes at once get their own arguments back.
func TestLargeRequests(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m, failed := jsonrpc.Parse(body)
		if err = errors.Join(err, failed); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", ContentJSON)
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, m.Params))
	})
	c := dial(t, echo, nil)
	done := make(chan error)
	const callers, calls = 8, 20
	for i := range callers {
		go func() {
			var failed error
			for n := range calls {
				params := []byte(`{"text":"` + strings.Repeat(string(rune('a'+i)), 100+(n%3)*(pooledBody+n*997)) + `"}`)
				got, err := c.Call(t.Context(), "tools/call", params, nil)
				if err == nil && !bytes.Equal(got, params) {
					err = errors.New("another request's arguments")
				}
				failed = errors.Join(failed, err)
			}
			done <- failed
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
