package confined

import (
	"fmt"
	"testing"
	"time"
)

// TestHosts: a host is told once in ten minutes, the last ones are kept in the order in which they were asked for, and their
// number is bounded.
func TestHosts(t *testing.T) {
	h, now := newHosts(), time.Unix(1000, 0)
	for i, c := range []struct {
		host    string
		refused bool
		after   time.Duration
		tell    bool
	}{
		{"a:443", false, 0, true}, {"b:443", true, 0, true}, {"a:443", false, time.Minute, false}, {"a:443", true, 0, true},
		{"a:443", false, 8 * time.Minute, false}, {"a:443", false, 2 * time.Minute, true}, {"a:443", false, 0, false},
	} {
		now = now.Add(c.after)
		if tell := h.add("srv", c.host, c.refused, now); tell != c.tell {
			t.Errorf("%d: %s is told: %v", i, c.host, tell)
		}
	}
	var got string
	for _, one := range h.last("srv", 50) {
		got += fmt.Sprint(one.Host, " ", one.Refused, " ", one.At.Unix(), "\n")
	}
	if want := "a:443 false 1660\na:443 true 1060\nb:443 true 1000\n"; got != want {
		t.Errorf("%swant\n%s", got, want)
	}
	for i := range 3 * maxServerHosts {
		h.add("srv", fmt.Sprint(i), false, now)
	}
	if all := h.last("srv", 1<<20); len(all) != maxServerHosts || all[0].Host != fmt.Sprint(3*maxServerHosts-1) {
		t.Errorf("%d hosts, the last is %s", len(all), all[0].Host)
	}
	if all := h.last("srv", 2); len(all) != 2 || len(h.last("other", 2)) != 0 {
		t.Errorf("%v", all)
	}
}
