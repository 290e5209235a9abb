package text

import (
	"testing"
	"time"
)

func TestSince(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m", 3*time.Hour + 20*time.Minute: "3h20m", 9*24*time.Hour + time.Hour: "9d",
	} {
		if got := Since(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
