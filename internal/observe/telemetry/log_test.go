package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

type holder struct{ Key string }

func TestRedactLog(t *testing.T) {
	const secret = "hunter2"
	redact := func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }
	var buf bytes.Buffer
	log := slog.New(RedactLog(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelInfo}), redact))
	log.Debug("not " + secret)
	log.With("with", secret, "n", 7).WithGroup("g").Info("the password is "+secret,
		"text", "x "+secret, "err", fmt.Errorf("wrapped: %w", errors.New(secret)), "bytes", []byte(secret), "struct", holder{secret},
		"list", []string{secret, "b"}, slog.Group("inner", "deep", secret), "plain", holder{"visible"}, "yes", true, "lazy", lazy{secret})
	got := buf.String()
	if strings.Contains(got, secret) || strings.Count(got, "[redacted]") != 9 {
		t.Errorf("%d redacted in %s", strings.Count(got, "[redacted]"), got)
	}
	for _, want := range []string{"n=7", "g.yes=true", "visible", "g.inner.deep="} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
}

type lazy struct{ s string }

func (l lazy) LogValue() slog.Value { return slog.StringValue(l.s) }
