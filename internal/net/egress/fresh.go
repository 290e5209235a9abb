package egress

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Freshness returns how long a fetched document is kept by its Cache-Control, between least and most, and usual
// if that does not say. What must not be stored is kept for least, so that requests have a bound.
func Freshness(h http.Header, usual, least, most time.Duration) time.Duration {
	age := usual
	for directive := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return least
		case "max-age":
			if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				age = time.Duration(seconds) * time.Second
			}
		}
	}
	return min(max(age, least), most)
}
