package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReplacedInTheLog: the log names the key once a minute, however many sessions are replaced.
func TestReplacedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &SessionCount{log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 150 {
			c.On(-1, "ann")
			time.Sleep(time.Second)
		}
		if lines := strings.Count(out.String(), "http.max_sessions"); lines != 3 || c.replaced.Load() != 150 {
			t.Errorf("%d lines, %d replaced", lines, c.replaced.Load())
		}
	})
}
