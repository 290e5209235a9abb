package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/history"
	"github.com/weir-mcp/weir/mcp"
)

// TestOwnersStreams: a check of all streams, as after the sign-out of a person, ends none of the user
// who runs the gateway. One that began with the token of a code ends with that token.
func TestOwnersStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var streams guard.Streams
		streams.Follow(func(*http.Request) (*identity.Identity, error) {
			return nil, mcp.Errorf(mcp.KindUnauthorized, "the callers of the gateway have other tokens")
		})
		desk := NewDesk(time.Now)
		token, _, _ := desk.change(string(desk.code()))
		w := newWorld(t)
		calls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, end := guard.Lasting(r.Context())
			defer end()
			<-ctx.Done()
			_, _ = w.Write([]byte(context.Cause(ctx).Error()))
		})
		a := New(Options{Key: worldKey, Desk: desk, Calls: calls, Look: w.look(&history.Book{})})
		defer a.Close()
		served := guard.New(guard.Options{Streams: &streams}).Wrap(a)
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan string, 4)
		for _, bearer := range []string{worldKey, string(token)} {
			watch, listen := request("GET", "calls/stream", ""), request("POST", "mcp", "{}")
			listen.Header.Set("Mcp-Method", "subscriptions/listen")
			for _, r := range []*http.Request{watch, listen} {
				r.Host = "127.0.0.1"
				r.Header.Set("Authorization", "Bearer "+bearer)
				go func() {
					w := httptest.NewRecorder()
					served.ServeHTTP(w, r.WithContext(ctx))
					answers <- w.Body.String()
				}()
			}
		}
		synctest.Wait()
		streams.Recheck()
		if synctest.Wait(); len(answers) != 0 {
			t.Errorf("%d streams have ended: %s", len(answers), <-answers)
		}
		time.Sleep(sessionLife)
		if synctest.Wait(); len(answers) != 2 {
			t.Fatalf("%d streams have ended with the token", len(answers))
		}
		for range 2 {
			if got := <-answers; !strings.Contains(got, "run weir open again") {
				t.Errorf("the end: %s", got)
			}
		}
		cancel()
		for range 2 {
			if got := <-answers; strings.Contains(got, "run weir open again") {
				t.Errorf("the key: %s", got)
			}
		}
	})
}
