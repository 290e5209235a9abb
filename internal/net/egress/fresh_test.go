package egress

import (
	"net/http"
	"testing"
	"time"
)

func TestFreshness(t *testing.T) {
	for control, want := range map[string]time.Duration{
		"":                       time.Hour,
		"public":                 time.Hour,
		"max-age=600":            10 * time.Minute,
		`private, Max-Age="600"`: 10 * time.Minute,
		"max-age=1":              time.Minute,
		"max-age=999999":         24 * time.Hour,
		"max-age=-1":             time.Hour,
		"no-store":               time.Minute,
		"max-age=600, no-cache":  time.Minute,
	} {
		if got := Freshness(http.Header{"Cache-Control": {control}}, time.Hour, time.Minute, 24*time.Hour); got != want {
			t.Errorf("%q: %s, want %s", control, got, want)
		}
	}
}
