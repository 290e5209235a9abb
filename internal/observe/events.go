package observe

import (
	"io"
	"log/slog"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/part"
)

// OpenEvents opens the configured event log; it returns nil if none is configured. If the
// configuration names EventsStderr, events go to stderr. The caller closes the log, or passes it to
// New.
func OpenEvents(c *config.Config, stderr io.Writer, log *slog.Logger) (*telemetry.EventLog, error) {
	failed := func(err error) { log.Error("events cannot be written and are lost", "file", c.Events.File, "err", err) }
	switch c.Events.File {
	case "":
		return nil, nil
	case config.EventsStderr:
		return telemetry.NewEventLog(stderr, failed), nil
	}
	events, err := telemetry.OpenEventLog(c.Events.File, failed)
	if err != nil {
		return nil, part.Setupf("events.file: %w", err)
	}
	return events, nil
}
