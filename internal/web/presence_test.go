package web

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestPresence: a gateway is idle once no client has been there for the whole time; those that only
// watch it are no clients.
func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p presence
		first := p.start(httptest.NewRequest("GET", "/mcp", nil))
		idle := p.wait(30 * time.Minute)
		expect := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case <-idle:
				if !want {
					t.Fatalf("%s: idle", what)
				}
			default:
				if want {
					t.Fatalf("%s: not idle", what)
				}
			}
		}
		time.Sleep(2 * time.Hour)
		expect("with a client", false)
		first()
		time.Sleep(29 * time.Minute)
		p.start(httptest.NewRequest("POST", "/mcp", nil))()
		time.Sleep(29 * time.Minute)
		p.start(httptest.NewRequest("GET", "/healthz", nil))()
		expect("29 minutes after the last client", false)
		time.Sleep(time.Minute + time.Second)
		expect("after the whole time", true)
		p.start(httptest.NewRequest("POST", "/mcp", nil))()
		expect("with a late request", true)
	})
}
