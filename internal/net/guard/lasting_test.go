package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
)

// caller is a principal whose credential changes during a test.
type caller struct {
	id  atomic.Pointer[identity.Identity]
	err atomic.Pointer[error]
}

func (c *caller) set(principal string, ends time.Time, err error) {
	c.id.Store(&identity.Identity{Principal: principal, Expires: ends})
	c.err.Store(&err)
}

func (c *caller) authenticate(*http.Request, string) (*identity.Identity, error) {
	if err := *c.err.Load(); err != nil {
		return nil, err
	}
	return c.id.Load(), nil
}

// inStream runs test with the context of a stream that a caller has opened with a GET.
func inStream(t *testing.T, c *caller, streams *guard.Streams, test func(ctx context.Context)) {
	t.Helper()
	g := guard.New(guard.Options{Authenticate: c.authenticate, Streams: streams})
	streams.Follow(g.Identify)
	r := httptest.NewRequest("GET", "http://127.0.0.1/mcp", nil)
	r.Header.Set("Authorization", "Bearer t")
	ran := false
	g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ran = true
		ctx, end := guard.Lasting(r.Context())
		defer end()
		test(ctx)
	})).ServeHTTP(httptest.NewRecorder(), r)
	if !ran {
		t.Error("the request was refused")
	}
}

func ended(ctx context.Context) bool {
	synctest.Wait()
	kind, _ := mcp.KindOf(context.Cause(ctx))
	return ctx.Err() != nil && kind == mcp.KindUnauthorized
}

// TestStreamsEndWithCredentials: at the end of the credential, and when a check finds another caller or
// none; not while the issuer cannot be asked, or the credential was prolonged.
func TestStreamsEndWithCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c caller
		var streams guard.Streams
		gone := mcp.Errorf(mcp.KindUnauthorized, "the token has expired")
		c.set("ann", time.Now().Add(time.Hour), nil)
		inStream(t, &c, &streams, func(ctx context.Context) {
			time.Sleep(time.Hour - time.Second)
			if ended(ctx) {
				t.Error("ended before the credential")
			}
			c.set("ann", time.Now().Add(time.Second), gone)
			time.Sleep(time.Second)
			if !ended(ctx) || !errors.Is(context.Cause(ctx), gone) {
				t.Errorf("goes on after the credential: %v", context.Cause(ctx))
			}
		})
		c.set("ann", time.Now().Add(time.Hour), nil)
		inStream(t, &c, &streams, func(ctx context.Context) {
			c.set("ann", time.Now().Add(2*time.Hour), nil)
			time.Sleep(time.Hour + time.Minute)
			if ended(ctx) {
				t.Error("a prolonged credential ends the stream")
			}
			c.set("ann", time.Time{}, mcp.Errorf(mcp.KindIdentityUnavailable, "the issuer cannot be asked"))
			time.Sleep(time.Hour)
			if ended(ctx) {
				t.Error("an issuer that cannot be asked ends the stream")
			}
			c.set("ann", time.Time{}, gone)
			time.Sleep(time.Minute)
			if !ended(ctx) {
				t.Error("the issuer is back, and the stream goes on")
			}
		})
		c.set("ann", time.Time{}, nil)
		for name, change := range map[string]func(){
			"a removed token": func() { c.set("", time.Time{}, gone) },
			"another caller":  func() { c.set("bob", time.Time{}, nil) },
			"no right":        func() { c.set("", time.Time{}, mcp.Errorf(mcp.KindPermissionDenied, "not for you")) },
		} {
			c.set("ann", time.Time{}, nil)
			inStream(t, &c, &streams, func(ctx context.Context) {
				streams.Recheck()
				if ended(ctx) {
					t.Errorf("%s: ended before", name)
				}
				change()
				if streams.Recheck(); !ended(ctx) {
					t.Errorf("%s: goes on", name)
				}
			})
		}
		c.set("ann", time.Time{}, nil)
		inStream(t, &c, &streams, func(ctx context.Context) {
			later := httptest.NewRequest("POST", "http://127.0.0.1/messages", nil)
			later.Header.Set("Authorization", "Bearer t2")
			renewed, end := guard.LastingBy(ctx, later)
			defer end()
			if ended(renewed) {
				t.Error("a renewed credential ends the stream")
			}
			c.set("", time.Time{}, gone)
			ill, end := guard.LastingBy(ctx, later)
			defer end()
			if !ended(ill) || ended(renewed) {
				t.Error("the later credential is not checked at once, or another one is")
			}
		})
	})
}

// TestStreamsWithoutAuthentication: a reload that begins to ask for tokens ends the streams from before.
func TestStreamsWithoutAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var streams guard.Streams
		open := guard.New(guard.Options{Streams: &streams})
		streams.Follow(open.Identify)
		open.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ctx, end := guard.Lasting(r.Context())
			defer end()
			if streams.Recheck(); ended(ctx) {
				t.Error("ended without a reason")
			}
			var c caller
			c.set("ann", time.Time{}, nil)
			if streams.Follow(guard.New(guard.Options{Authenticate: c.authenticate, Streams: &streams}).Identify); !ended(ctx) {
				t.Error("goes on without a token")
			}
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://127.0.0.1/mcp", nil))
	})
}

// TestStreamsThatBeginLate: the rules change after the headers of the request were checked, and before
// the stream begins.
func TestStreamsThatBeginLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c caller
		var streams guard.Streams
		gone := mcp.Errorf(mcp.KindUnauthorized, "the token is unknown")
		c.set("ann", time.Time{}, nil)
		g := guard.New(guard.Options{Authenticate: c.authenticate, Streams: &streams})
		r := httptest.NewRequest("GET", "http://127.0.0.1/mcp", nil)
		r.Header.Set("Authorization", "Bearer t")
		streams.Follow(g.Identify)
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.set("", time.Time{}, gone)
			streams.Recheck()
			ctx, end := guard.Lasting(r.Context())
			defer end()
			if !ended(ctx) {
				t.Error("the credential ended before the stream, and the stream goes on")
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	})
}

// TestStreamsOfRevocableCredentials end within minutes after the issuer has revoked the credential.
func TestStreamsOfRevocableCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c caller
		var streams guard.Streams
		c.set("ann", time.Time{}, nil)
		c.id.Store(&identity.Identity{Principal: "ann", Expires: time.Now().Add(100 * time.Hour), Revocable: true})
		inStream(t, &c, &streams, func(ctx context.Context) {
			if time.Sleep(time.Hour); ended(ctx) {
				t.Fatal("ended before")
			}
			c.set("", time.Time{}, mcp.Errorf(mcp.KindUnauthorized, "the token is unknown"))
			if time.Sleep(5*time.Minute + time.Second); !ended(ctx) {
				t.Error("goes on after the revocation")
			}
		})
	})
}

// TestStreamsDrain: the streams that are open end within the time, with another reason than a credential; later
// ones stay.
func TestStreamsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c caller
		var streams guard.Streams
		c.set("ann", time.Time{}, nil)
		inStream(t, &c, &streams, func(ctx context.Context) {
			streams.Drain(2 * time.Second)
			inStream(t, &c, &streams, func(later context.Context) {
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if kind, _ := mcp.KindOf(context.Cause(ctx)); ctx.Err() == nil || kind != mcp.KindShuttingDown {
					t.Errorf("an open stream: %v", context.Cause(ctx))
				}
				if later.Err() != nil {
					t.Errorf("a later stream: %v", context.Cause(later))
				}
			})
		})
	})
}

// TestStreamsDrainBeforeTheyBegin: a stream whose request was there before Drain ends, too, if it begins after it.
func TestStreamsDrainBeforeTheyBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c caller
		var streams guard.Streams
		c.set("ann", time.Time{}, nil)
		inStream(t, &c, &streams, func(ctx context.Context) { // of the request, which begins one more stream
			streams.Drain(2 * time.Second)
			late, end := guard.Lasting(context.WithoutCancel(ctx))
			defer end()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if kind, _ := mcp.KindOf(context.Cause(late)); late.Err() == nil || kind != mcp.KindShuttingDown {
				t.Errorf("a stream that began after Drain: %v", context.Cause(late))
			}
		})
	})
}
