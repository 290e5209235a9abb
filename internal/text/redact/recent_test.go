package redact_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/text/redact"
)

// TestRecent adds more secrets than the bound and looks for each of them.
func TestRecent(t *testing.T) {
	r := redact.NewRecent(3)
	secret := func(i int) string { return fmt.Sprintf("access-token/%d+%d", i, i*7919) }
	for i := range 5 {
		r.Add(secret(i))
	}
	r.Add(secret(2)) // in use again: 3 is the oldest now
	r.Add(secret(5))
	for i := range 6 {
		text := "said " + secret(i) + " and " + base64.StdEncoding.EncodeToString([]byte("x"+secret(i)))
		kept := i == 2 || i == 4 || i == 5
		if got := r.Replace(text); (got == text) == kept || kept && strings.Count(got, redact.Mark) != 2 {
			t.Errorf("secret %d: %q", i, got)
		}
	}
	var none *redact.Recent
	none.Add("something")
	if none.Replace("something") != "something" || redact.NewRecent(1).Replace("something") != "something" {
		t.Error("an empty Recent changes a text")
	}
}

// TestRecentSharedForm removes one of two secrets that share a form: the other one is still found.
func TestRecentSharedForm(t *testing.T) {
	r := redact.NewRecent(1)
	r.Add("a-secret<b>")
	r.Add(`a-secret&lt;b&gt;`) // the HTML form of the first
	if got := r.Replace(`a-secret&lt;b&gt;`); got != redact.Mark {
		t.Errorf("got %q", got)
	}
}

func TestRecentConcurrentUse(t *testing.T) {
	r := redact.NewRecent(8)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				own := fmt.Sprintf("token-%d-%d", i, n)
				r.Add(own)
				_ = r.Replace("with " + own)
			}
		})
	}
	all.Wait()
}

// TestHold adds more secrets than the bound while two hold one: it is found until both have released
// it and newer ones have taken its place.
func TestHold(t *testing.T) {
	r := redact.NewRecent(2)
	found := func() bool { return r.Replace("said held-secret") != "said held-secret" }
	r.Add("held-secret")
	first, second := r.Hold("held-secret"), r.Hold("held-secret")
	more := func(from int) {
		for i := range 5 {
			r.Add(fmt.Sprint("another-secret-", from+i))
		}
		r.Add("another-secret-4")
	}
	more(0)
	if !found() || r.Len() != 3 {
		t.Errorf("held: found %t of %d", found(), r.Len())
	}
	first()
	first() // once more has no effect
	more(5)
	if !found() {
		t.Error("it leaves although one still holds it")
	}
	r.Add("held-secret")
	second()
	if !found() || r.Len() != 2 {
		t.Errorf("just released: found %t of %d", found(), r.Len())
	}
	more(10)
	if found() || r.Len() != 2 {
		t.Errorf("released: found %t of %d", found(), r.Len())
	}
	var none *redact.Recent
	none.Hold("held-secret")()
	r.Hold("on")()
	if r.Len() != 2 {
		t.Error("a text that is too short is held")
	}
}
